"""How often each arm is the best under a normal prior cut to a box, by long Markov chains.

Letters: K arms, L chains, B batches.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from agents.oracle.panels import ToleranceError
from agents.posteriors.chains import count_wins, principal_axes
from agents.posteriors.starts import bring_near, guess_means, make_target
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

NUM_CHAINS = 16
NUM_BATCHES = 32
FIRST_BATCH = 16
MAX_BATCH = 1 << 16
LARGEST_VARIANCE_RATIO = 4.0
"""Of chain averages, against what their batches promise: an F statistic with 15 and 496 degrees of
freedom, above 4 once in a million for a given arm when the chains agree."""


def gibbs_probabilities(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray, *, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and two standard errors.

    Chains start from draws of the prior, or as near to them as the data allow. Each round is twice
    as long as all before it, which are forgotten, until the chains agree with one another and the
    error is small enough. The generator is fixed, so that the result is a function of the problem
    and the data.

    Args:
        problem: its prior is a `TruncatedMultivariateNormal`.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        tolerance: largest error accepted.

    Raises:
        ToleranceError: if chains of MAX_BATCH * NUM_BATCHES sweeps still disagree or are still too
            noisy.
    """
    rng, prior = np.random.default_rng(0), cast(Any, problem.prior)
    data = np.tile(counts, (NUM_CHAINS, 1)), np.tile(sums, (NUM_CHAINS, 1))
    target = make_target(problem, *data)
    axes = principal_axes(prior.precision, guess_means(problem, *data)[1])
    means = bring_near(problem, prior.sample(rng, data[0].shape), *data)
    batch = FIRST_BATCH
    while True:
        wins = [count_wins(rng, means, target, axes, batch) for _ in range(NUM_BATCHES)]
        frequencies = np.array(wins) / batch
        error, ratio = monte_carlo_error(frequencies)
        agrees = ratio <= LARGEST_VARIANCE_RATIO
        if agrees and error <= tolerance and batch > FIRST_BATCH:
            return frequencies.mean(axis=(0, 1)), error
        batch *= 2
        if batch > MAX_BATCH:
            raise ToleranceError(_failure(tolerance, error, ratio), error)


def monte_carlo_error(frequencies: FloatArray) -> tuple[float, float]:
    """Return two standard errors of the average, and how much more the chains differ than they may.

    Args:
        frequencies: (B, L, K) averages of consecutive batches of each of L chains.

    Returns:
        Twice the larger of the standard errors by batches and by chains, largest over arms; and
        the largest ratio of the variance of chain averages to what their batches promise.
    """
    num_batches, num_chains, _ = frequencies.shape
    promised = frequencies.var(axis=0, ddof=1).mean(axis=0) / num_batches
    seen = frequencies.mean(axis=0).var(axis=0, ddof=1)
    error = 2 * np.sqrt(np.maximum(promised, seen).max() / num_chains)
    ratios = np.divide(seen, promised, out=np.zeros_like(seen), where=promised > 0)
    return float(error), float(ratios.max())


def _failure(tolerance: float, error: float, ratio: float) -> str:
    chains = "agree" if ratio <= LARGEST_VARIANCE_RATIO else "disagree"
    return (
        f"tolerance must be within reach of {NUM_CHAINS} Gibbs chains of "
        f"{MAX_BATCH * NUM_BATCHES} sweeps, got {tolerance!r} where two standard errors are "
        f"{error:.2g} and the chains {chains} (variance ratio {ratio:.2g})."
    )
