"""A conjugate law from outside: geometric rewards, under a Beta law of the chance of success."""

from dataclasses import dataclass

import geometric
import numpy as np
import pytest
from scipy import stats
from surface import started

from agents.base.conjugacy import ConjugateRow
from agents.numerics.distributions import Distribution
from agents.oracle import action_probabilities
from bandit_gym.problem import BanditProblem

COUNTS, SUMS, NUM_LANES = np.array([6, 4, 0]), np.array([9.0, 10.0, 0.0]), 20_000


@dataclass(frozen=True)
class BetaPrime:
    """The law of (1 - p) / p for p of Beta(beta, alpha), independently for each arm."""

    alpha: float
    beta: float
    support = (0.0, np.inf)

    def sample(self, rng, shape):
        """Draw means."""
        return stats.betaprime(self.alpha, self.beta).rvs(shape, random_state=rng)

    def arm_log_density(self, means):
        """Return the log-density of each arm."""
        return stats.betaprime(self.alpha, self.beta).logpdf(means)

    def log_density(self, means):
        """Return the log-density of all arms."""
        return self.arm_log_density(means).sum(axis=-1)


class Geometric(geometric.Geometric):
    """Failures before the first success: each adds to alpha, each success to beta."""

    conjugate_row = ConjugateRow(
        distribution=Distribution(lambda stats, alpha, beta: stats.betaprime(alpha, beta)),
        prior=BetaPrime,
        parameters=lambda prior: (prior.alpha, prior.beta),
        weights=((0, 1), (1, 0)),
    )


PROBLEM = BanditProblem(Geometric(), BetaPrime(3.0, 4.0), 3)


@pytest.mark.parametrize("name", ["exact", "racing"])
def test_a_law_from_outside_is_played_by_the_oracles_probabilities(name):
    """To four standard errors of a frequency."""
    expected = action_probabilities(PROBLEM, COUNTS, SUMS)
    error = 4 * np.sqrt(expected * (1 - expected) / NUM_LANES)
    arms = started(name, PROBLEM, NUM_LANES, COUNTS, SUMS).act()
    assert (abs(np.bincount(arms, minlength=3) / NUM_LANES - expected) < error).all()


def test_a_law_from_outside_is_conjugate_and_has_the_probabilities_of_the_oracle():
    agent = started("exact", PROBLEM, None, COUNTS, SUMS)
    assert agent.method == "conjugate"
    expected = action_probabilities(PROBLEM, COUNTS, SUMS)
    assert agent.action_probabilities() == pytest.approx(expected, abs=1e-5)
