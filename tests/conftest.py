"""What several test modules share; the families are in `support/families.py`."""

import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS

from bandit_gym.problem import BanditProblem


@pytest.fixture(params=CONJUGATE_PROBLEMS, ids=lambda problem: problem.likelihood.name)
def conjugate_problem(request: pytest.FixtureRequest) -> BanditProblem:
    """One problem per likelihood, each with a conjugate prior and four arms."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20261120)
