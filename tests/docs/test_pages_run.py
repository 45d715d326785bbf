"""Every page runs from top to bottom, and shows what its code and its commands print."""

import shutil

import pytest
from documents import PAGES, ROOT
from pages_run import EXCEPTIONS, run_page

from bandit_gym.cli import main
from bandit_gym.experiments.execution import Workers

FIRST = ["compare", "--replications", "2", "--horizon", "20", "--backend", "serial"]
SITE = ("tutorials", "reference", "project")  # which the build of the site runs, or has elsewhere
RUN = [
    pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.pages)
    for page in PAGES
    if page.name != "CHANGELOG.md"  # which tells of commands gone by
    and page.parent.name not in SITE
]
WITH_SB3 = "sb3.md"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The results that README's first command makes, which other pages go on with."""
    folder = tmp_path_factory.mktemp("first") / "first"
    assert main([*FIRST, "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_as_written(page, tmp_path, shared, first, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # No workers, unless a page asks for them: they would take longer to start than to work.
    monkeypatch.setattr(Workers.__init__, "__defaults__", ("serial", None, None))
    if page.name == WITH_SB3:
        pytest.importorskip("stable_baselines3")
        import torch

        torch.set_num_threads(1)  # on shared cores two threads of a small network wait
    if page.name != "README.md":  # which makes these results itself
        shutil.copytree(first, "results/first")
    names = run_page(page, tmp_path, shared, monkeypatch)
    if page.name == WITH_SB3:
        check_returns(names)


def check_returns(names):
    """Check that PPO and Racing beat random play, of 10 on average.

    A random episode's variance is at most 20 / 4 within an instance and 20^2 / 12 between them.
    """
    least = 10 + 2 * (20 / 4 + 20**2 / 12) ** 0.5 / 200**0.5
    assert min(names["ppo_return"], names["racing_return"]) > least


def test_at_most_ten_kinds_of_commands_are_not_run():
    assert len(EXCEPTIONS) <= 10
