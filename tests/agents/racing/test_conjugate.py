"""Proposals that are conjugate posteriors."""

import numpy as np
import pytest

from agents.racing.conjugate import _log_supremum_of_arm
from agents.racing.matching import make_proposal
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem


@pytest.mark.parametrize(
    "coefficients",
    [(2, 3, 0, 0, 0), (0, 0, 30, -40, 0), (1, 1, 5, -20, 0), (-2, 0, 0, 0, -0.5), (1, 0, 0, -9, 0)],
)
def test_the_supremum_of_an_arm_is_that_on_a_fine_grid(coefficients):
    x = np.linspace(0, 1, 200_001)[1:-1]
    features = [np.log(x), np.log1p(-x), x, x**2, 1 / x]
    expected = sum(c * f for c, f in zip(coefficients, features, strict=True)).max()
    assert _log_supremum_of_arm(np.array(coefficients, float), 0.0, 1.0) == pytest.approx(
        expected, abs=1e-8
    )


@pytest.mark.parametrize(
    ("prior", "is_equal"), [(Beta(1.0, 1.0), True), (Beta(1.0, 2.0), False), (None, False)]
)
def test_weights_are_equal_where_the_proposal_is_the_posterior(prior, is_equal):
    prior = prior or TruncatedNormal(0.5, 0.1)
    proposal = make_proposal(BanditProblem(Bernoulli(), prior, 2), "reference")
    assert proposal.has_equal_weights == is_equal
