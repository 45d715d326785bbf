"""The page about Stable-Baselines3 is complete."""

import pytest
from documents import read

pytest.importorskip("stable_baselines3")

from agents import sb3

PAGE = "docs/sb3.md"


def test_page_mentions_every_public_name():
    page = read(PAGE)
    assert all(name in page for name in set(sb3.__all__) - {"AgentPolicy"})
