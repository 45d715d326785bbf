"""Gaussian rewards, arms independent a priori."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.priors import DensityOnly
from bandit_gym.fidelity.truth import Data
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.typing import FloatArray


def _case(
    name: str,
    why: str,
    prior: Any,
    counts: Sequence[int],
    sums: Sequence[float],
    *,
    std: float = 1.0,
    find_law: Any = None,
) -> Case:
    return Case(f"Gaussian, {name}", why, Gaussian(std), prior, (*counts,), (*sums,), find_law)


def _race_of_exponentials(prior: Any, data: Data) -> FloatArray:
    """Return the law of two arms whose rewards average far beyond a common upper end.

    Their distances from it are exponential, with rates that are proportional to the sums.
    """
    return np.asarray(data[1] / data[1].sum())


def _first(prior: Any, data: Data) -> FloatArray:
    """Return the law of certainty of the first arm."""
    return np.eye(len(data[0]))[0]


RARE_CAMP = Mixture([Normal(0.0, 1.0), Normal(30.0, 0.1)], [0.999, 0.001])

CASES = (
    _case("vague prior", "a standard deviation of 1e4, three arms within 1",
          Normal(0.0, 1e4), (10, 10, 10), (1000.0, 1003.0, 1005.0)),
    _case("vague prior, density only", "the same, told by its density",
          DensityOnly(Normal(0.0, 1e4)), (10, 10, 10), (1000.0, 1003.0, 1005.0)),
    _case("vague prior, arms without data", "nothing is known of half of the arms",
          Normal(0.0, 1e4), (0, 0, 2, 1), (0.0, 0.0, 10.0, 9e3)),
    _case("rare camp", "the data lie in a camp of prior probability 0.001",
          RARE_CAMP, (2, 2, 5), (52.0, 58.0, 3.0)),
    _case("two scales", "most means are near 0, some anywhere",
          Mixture([Normal(0.0, 0.01), Normal(0.0, 100.0)], [0.95, 0.05]),
          (4, 4, 1, 1, 0), (1.0, -2.0, 3.0, 30.0, 0.0)),
    _case("rewards of 1e9, cut at 1", "rewards far beyond the support",
          TruncatedNormal(0.0, 1.0, -1.0, 1.0), (5, 5), (5e9, 1e10),
          find_law=_race_of_exponentials),
    _case("one arm of 1e13, cut at 1", "one arm's rewards far beyond the support",
          TruncatedNormal(0.0, 1.0, -1.0, 1.0), (5, 5, 0), (5e13, 2.0, 0.0),
          find_law=_first),
    _case("noise of 1e-6, no data", "five arms alike", Normal(0.0, 1.0), (0,) * 5, (0.0,) * 5,
          std=1e-6),
    _case("noise of 1e-6, near-duplicates", "arms that differ by a standard error in 1e6",
          Normal(0.0, 1.0), (1, 1, 1, 0), (0.8, 0.800001, 0.799, 0.0), std=1e-6),
    _case("prior against data", "10 standard errors apart, either way",
          TruncatedNormal(0.0, 0.1, -5.0, 5.0), (100, 100, 100), (141.0, 155.0, -150.0)),
    _case("1e9 pulls, cut normal", "one standard error apart, at the end of the support",
          TruncatedNormal(0.0, 1.0, -1.0, 1.0), (10**9, 10**9, 10**9), (1.00002e9, 1e9, 0.99998e9)),
)  # fmt: skip
