"""One place says which posterior fits, and what is missing where none does."""

import numpy as np
import pytest
from geometric import Geometric

from agents import ExactThompson
from agents.posteriors.choosing import KINDS, exact_method
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import (
    Beta,
    Gamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

BOX = TruncatedMultivariateNormal(0.5, [[1.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("likelihood", "prior", "method"),
    [
        (Bernoulli(), Beta(1.0, 1.0), "conjugate"),
        (Gaussian(), Normal(0.0, 1.0), "conjugate"),
        (Bernoulli(), TruncatedNormal(0.5, 0.1), "grid"),
        (Gaussian(), BOX, "gibbs"),
        (Geometric(), Gamma(2.0, 1.0), "grid"),
    ],
    ids=["beta", "normal", "cut normal", "box", "geometric"],
)
def test_first_kind_that_fits_is_taken(likelihood, prior, method):
    problem = BanditProblem(likelihood, prior, 2)
    assert exact_method(problem) == ExactThompson(problem).method == method


@pytest.mark.parametrize("method", KINDS)
def test_method_that_does_not_fit_says_what_it_needs(method):
    unfit = {"conjugate": NARROW, "grid": BOX, "gibbs": NARROW}[method]
    problem = BanditProblem(Bernoulli(), unfit, 2)
    need = KINDS[method].need(problem).rstrip(",")
    with pytest.raises(ValueError, match=f"problem.prior must {need}".replace("(", r"\(")[:60]):
        ExactThompson(problem, method=method)


NARROW = TruncatedNormal(0.5, 0.1)


def test_likelihood_without_a_row_needs_densities_of_single_arms():
    class Joint:
        def sample(self, rng, shape):
            return rng.gamma(2.0, 1.0, shape)

        def log_density(self, means):
            with np.errstate(all="ignore"):
                values = np.where(means > 0, np.log(means) - means, -np.inf)
            return values.sum(axis=-1)

    problem = BanditProblem(Geometric(), Joint(), 2)
    with pytest.raises(ValueError, match="arm_log_density .* geometric rewards, which have no row"):
        ExactThompson(problem)
    with pytest.raises(ValueError, match="prior must be 'problem' for geometric rewards"):
        ExactThompson(problem, prior="reference")
