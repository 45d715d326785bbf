"""What one Bernoulli arm is expected to pay after s successes in n pulls, under any prior.

    m(n, s) = Z(n + 1, s + 1) / Z(n, s),    Z(n, s) = int x^s (1 - x)^(n - s) p(x) dx

In closed form where the prior is conjugate. Otherwise the last row comes from quadrature, and the
rows before from what exchangeable rewards obey, a success and then a failure being as likely as
the other way round:

    m(n, s) (1 - m(n + 1, s + 1)) = (1 - m(n, s)) m(n + 1, s)

Solved for m(n, s) and its complement that is a ratio of sums of positive numbers, so that nothing
cancels and an error of the last row does not grow.

Notation: K arms, T horizon, P panels, Q nodes, S sums.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import expit

from agents.oracle.arms import ArmPosteriors, Arms, find_first_edges
from agents.oracle.panels import Panels, exclusive_products, resolve_panels
from bandit_gym.checks import check_integer, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import is_binary
from bandit_gym.priors import Beta
from bandit_gym.priors.independent import keeps_draws
from bandit_gym.problem import BanditProblem, check_problem

PANEL_TOLERANCE = 1e-12
"""Mass of a posterior in doubt, per panel."""

SUMS_PER_BATCH = 64


def check_solvable(problem: BanditProblem, horizon: int) -> None:
    """Refuse problems whose state is more than a table of counts.

    Raises:
        TypeError: if the problem is no `BanditProblem`, or the horizon no integer.
        ValueError: if the rewards are not Bernoulli, the arms not independent a priori, or the
            horizon is not positive.
    """
    check_problem(problem)
    check_integer("horizon", horizon, minimum=1, maximum=2**62)
    if not is_binary(problem.likelihood):
        condition = "be Bernoulli(), whose counts are all there is to know"
        raise ValueError(message("problem.likelihood", condition, problem.likelihood))
    if not problem.offers("arm_log_density"):
        condition = "offer arm_log_density (arms independent a priori)"
        raise ValueError(message("problem.prior", condition, problem.prior))


def predictive_means(problem: BanditProblem, horizon: int) -> FloatArray:
    """Return the (K, T, T) tables m(n, s) of each arm, or (1, T, T) if all arms are alike.

    What lies above the diagonal, s > n, means nothing. By quadrature the relative error is below
    1e-8, see `PANEL_TOLERANCE`.

    Args:
        problem: Bernoulli rewards, arms independent a priori.
        horizon: T, so that n < T.
    """
    prior = problem.prior
    if isinstance(prior, Beta) and keeps_draws(prior):
        n, s = np.arange(float(horizon))[:, None], np.arange(float(horizon))
        alpha, beta = (np.reshape(size, (-1, 1, 1)) for size in (prior.alpha, prior.beta))
        is_same_prior = (alpha == alpha[0]).all() and (beta == beta[0]).all()
        means = (alpha + s) / (alpha + beta + n)
        return np.asarray(means[:1] if is_same_prior else means)
    arms = Arms(problem)
    tables = {}
    for arm in (kinds := group_arms(arms)):
        if arm not in tables:
            tables[arm] = find_earlier_rows(*find_last_row(OneArm(arms, arm), horizon - 1))
    return np.stack([tables[arm] for arm in (kinds if any(kinds) else [0])])


def group_arms(arms: Arms) -> list[int]:
    """Return, for each arm, the first that has the same prior, as far as K or more draws show."""
    positions = arms.draws[:: arms.problem.num_arms].reshape(-1, 1)  # of all arms
    positions = np.repeat(positions, arms.problem.num_arms, axis=1)
    signatures = np.concatenate([arms.support.T, arms.log_prior(positions)]).T
    return [int(np.flatnonzero((signatures == mark).all(axis=1))[0]) for mark in signatures]


def find_last_row(arm: OneArm, num_pulls: int) -> tuple[FloatArray, FloatArray]:
    """Return (n + 1,) predictive means after n pulls and their complements, by quadrature."""
    expectations = []
    sums = np.arange(float(num_pulls + 1))
    for some in np.split(sums, range(SUMS_PER_BATCH, len(sums), SUMS_PER_BATCH)):
        panels = arm.resolve_panels(np.full(len(some), float(num_pulls)), some)
        values = np.stack(arm.means_and_complements(panels.positions))
        expectations.append(panels.expectations(values[..., None]))
    means, complements = np.concatenate(expectations, axis=1)
    return means / (means + complements), complements / (means + complements)


def find_earlier_rows(means: FloatArray, complements: FloatArray) -> FloatArray:
    """Return (T, T) predictive means from the last (T,) row and its complements."""
    table = np.ones((len(means), len(means)))
    table[-1] = means
    for n in reversed(range(len(means) - 1)):
        success_first, failure_first = means[:-1], complements[1:]
        total = success_first + failure_first
        means, complements = success_first / total, failure_first / total
        table[n, : n + 1] = means
    return table


def expected_best_mean(problem: BanditProblem) -> float:
    """Return E max_i mu_i under the prior, by quadrature."""
    no_data = np.zeros(problem.num_arms)
    posteriors = ArmPosteriors(Arms(problem), no_data, no_data)
    panels = resolve_panels(posteriors, find_first_edges(posteriors), PANEL_TOLERANCE)
    chances = exclusive_products(panels.cumulative_probabilities())  # of being above all others
    means = posteriors.line.means(panels.positions)[..., None]
    best, total = panels.expectations(np.stack([means * chances, chances])).sum(axis=1)
    return float(best / total)


class OneArm(Arms):
    """One arm of a problem, taken as often as there are sums.

    Arguments:
        arms: all of them, which share the coordinate of means.
        arm: which.
    """

    def __init__(self, arms: Arms, arm: int) -> None:
        super().__init__(arms.problem)
        self.arms, self.arm, self.line = arms, arm, arms.line
        self.support, self.draws = arms.support[[arm]], arms.draws[:, [arm]]

    @cached_property
    def prior_edges(self) -> FloatArray:
        """Increasing u between which its prior has nothing that hides."""
        return find_first_edges(ArmPosteriors(self, np.zeros(1), np.zeros(1)))

    def log_prior(self, means: FloatArray) -> FloatArray:
        """Return the log-density at (M, S) means whose columns are all alike."""
        column = np.repeat(means[:, :1], self.problem.num_arms, axis=1)
        return np.broadcast_to(self.arms.log_prior(column)[:, [self.arm]], means.shape)

    def resolve_panels(self, counts: FloatArray, sums: FloatArray) -> Panels:
        """Return panels that resolve the posteriors after (S,) counts and sums."""
        posteriors = ArmPosteriors(self, counts, sums)
        averages = self.line.positions(np.unique(sums / np.maximum(counts, 1)))
        edges = np.unique(np.concatenate([self.prior_edges, averages]))
        return resolve_panels(posteriors, edges, PANEL_TOLERANCE)

    def means_and_complements(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means x and 1 - x at places on the line, both to full relative precision."""
        line = self.line
        return line.means(u), (1 - line.high) + (line.high - line.low) * expit(-u)
