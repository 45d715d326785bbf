"""What several test modules share; the families are in `support/families.py`."""

from collections.abc import Iterator

import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS

from bandit_gym.problem import BanditProblem


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' commands out of the record of what the user has run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(params=CONJUGATE_PROBLEMS, ids=lambda problem: problem.likelihood.name)
def conjugate_problem(request: pytest.FixtureRequest) -> BanditProblem:
    """One problem per likelihood, each with a conjugate prior and four arms."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20261120)
