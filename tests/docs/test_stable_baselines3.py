"""The page about Stable-Baselines3 runs as it stands."""

import pytest
from documents import blocks, read, run

pytest.importorskip("stable_baselines3")
import torch

from agents import sb3

PAGE = "docs/stable-baselines3.md"


@pytest.mark.slow
def test_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    names: dict = {}
    for block in blocks(PAGE):
        run(block, names)
    assert names["racing_return"] > 11  # of 20 pulls; random play earns 10 on average
    assert names["ppo_return"] > 10
    assert names["episodes"].lengths.tolist() == [50]


def test_page_mentions_every_public_name():
    page = read(PAGE)
    assert all(name in page for name in set(sb3.__all__) - {"AgentPolicy"})
