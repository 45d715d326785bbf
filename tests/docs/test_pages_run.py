"""Every page runs from top to bottom, and shows what its code and its commands print."""

import shutil
from importlib.util import find_spec

import pytest
from documents import PAGES, ROOT
from pages_run import EXCEPTIONS, FIRST, run_page

from bandit_gym.cli import main
from bandit_gym.experiments.execution import Workers

SITE = ("tutorials", "reference", "project")  # which the build of the site runs, or has elsewhere
RUN = [
    pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.pages)
    for page in PAGES
    if page.name != "CHANGELOG.md"  # which tells of commands gone by
    and page.parent.name not in SITE
]
NEEDED = {
    "sb3.md": "stable_baselines3",
    "in-context-network.md": "torch",
    "production-priors.md": "obp",  # no extra has it: it brings PyTorch and more
}
"""What a page needs that may not be installed."""


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The results that README's first command makes, which other pages go on with."""
    folder = tmp_path_factory.mktemp("first") / "first"
    assert main(["compare", *FIRST.split(), "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_as_written(page, tmp_path, request, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # No workers, unless a page asks for them: they would take longer to start than to work.
    monkeypatch.setattr(Workers.__init__, "__defaults__", ("serial", None, None))
    needed = NEEDED.get(page.name)
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if page.name == "sb3.md":
        import torch

        torch.set_num_threads(1)  # on shared cores two threads of a small network wait
    if page.name != "README.md":  # which makes these results itself
        shutil.copytree(request.getfixturevalue("first"), "results/first")
    names = run_page(page, tmp_path, monkeypatch)
    if page.name == "sb3.md":
        # PPO and Racing beat random play, of 10 on average. A random episode's variance is at most
        # 20 / 4 within an instance and 20^2 / 12 between them.
        least = 10 + 2 * (20 / 4 + 20**2 / 12) ** 0.5 / 200**0.5
        assert min(names["ppo_return"], names["racing_return"]) > least
    if page.name == "in-context-network.md":
        # Networks that draw regret less than random play, 20 (5 / 6 - 1 / 2) on average. Those that
        # pull the largest need a longer training than here, as they stay with one arm.
        for name in ("optimal actions, drawn", "Thompson probabilities, drawn"):
            totals = names["regrets"][name].sum(axis=1)
            assert totals.mean() + 4 * totals.std() / len(totals) ** 0.5 < 20 / 3, name


def test_at_most_ten_kinds_of_commands_are_not_run():
    assert len(EXCEPTIONS) <= 10
