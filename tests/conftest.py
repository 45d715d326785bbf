"""What several test modules share; the families are in `support/families.py`."""

import os
import sys

import numpy as np
import pytest

# The processes of this run leave no core to a second thread, which took a tenth of their time.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the pages, the longest tests of all: no process is to end with one, alone."""
    items.sort(key=lambda item: item.path.name != "test_pages_run.py")


@pytest.fixture(autouse=True)
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the folders that commands import from out of other tests."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands draw no figures, which take most of the time of a small one."""
    monkeypatch.setattr("bandit_gym.results.plots.save_figures", lambda *_, **__: [])


@pytest.fixture
def few_chain_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chains answer with an eighth of their draws, where no answer is compared with a truth."""
    monkeypatch.setattr("agents.posteriors.chains.DRAWS_PER_COPY", 16)
    monkeypatch.setattr("agents.posteriors.chains.MIN_ANSWER_DRAWS", 2500.0 / 8)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20261120)
