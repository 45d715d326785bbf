"""What the mesh of a prior resolves, what it merges, and what it refuses."""

import numpy as np
import pytest

from agents.posteriors.mesh import find_twins, make_mesh
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem


class Told:
    """A user's prior, told by the log-density of an arm and by draws of any law."""

    def __init__(self, support, arm_log_density, sample):
        self.support, self.arm_log_density, self.sample = support, arm_log_density, sample

    def log_density(self, means):
        return self.arm_log_density(means).sum(axis=-1)


def test_arms_are_twins_only_if_every_draw_looked_at_says_so():
    """Of 16 arms one has more mass above 0.9, which one draw in a thousand shows."""

    def arm_log_density(means):
        is_inside = (means > 0.0) & (means < 1.0)
        more = (means > 0.9) & (np.arange(16) == 3)
        return np.where(is_inside, np.where(more, 1.0, 0.0), -np.inf)

    prior = Told((0.0, 1.0), arm_log_density, lambda rng, shape: rng.random(shape))
    problem, draws = BanditProblem(Gaussian(), prior, 16), np.full((64, 16), 0.5)
    draws[-1, -1] = 0.95
    twins = find_twins(problem, problem.arm_support(), draws)
    assert twins.tolist() == [3 if arm == 3 else 0 for arm in range(16)]


@pytest.mark.filterwarnings("ignore:prior.sample and")  # draws only tell the scale here
@pytest.mark.parametrize("side", [1.0, -1.0], ids=["low end", "high end"])
@pytest.mark.parametrize("rate", [0.95e-3, 1.05e-3])
def test_a_prior_that_decays_by_less_than_a_thousandth_a_unit_is_none(rate, side):
    """|x|^(rate - 1) e^-|x| on a half-line decays by the rate in u = log|x| towards 0."""

    def arm_log_density(means):
        distance = np.where(side * means > 0, side * means, 1.0)
        return np.where(side * means > 0, (rate - 1) * np.log(distance) - distance, -np.inf)

    support = (0.0, np.inf) if side > 0 else (-np.inf, 0.0)
    prior = Told(support, arm_log_density, lambda rng, shape: side * rng.exponential(size=shape))
    problem = BanditProblem(Gaussian(), prior, 2)
    if rate > 1e-3:
        assert make_mesh(problem).sizes[0] > 0
    else:
        with pytest.raises(ValueError, match="does not decay for arm 0"):
            make_mesh(problem)


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Gaussian(), Normal(0.0, 1.0)),
        (Bernoulli(), Beta(0.5, 0.5)),
        (Bernoulli(), TruncatedNormal(0.5, 1e-4)),
        (Poisson(), Gamma(2.0, 3.0)),
        (Exponential(), InverseGamma(6.0, 5.0)),
    ],
    ids=str,
)
def test_a_smooth_law_takes_at_most_a_hundred_cells(likelihood, prior):
    """Tables have some points for each cell, so that cells that are too small cost time."""
    assert make_mesh(BanditProblem(likelihood, prior, 2)).sizes.max() <= 100
