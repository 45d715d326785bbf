"""Poisson rewards, arms independent a priori."""

from collections.abc import Sequence
from typing import Any

from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.priors import DensityOnly
from bandit_gym.fidelity.truth import log_law
from bandit_gym.likelihoods import Poisson
from bandit_gym.priors import Gamma, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture


def _case(
    name: str,
    why: str,
    prior: Any,
    counts: Sequence[int],
    sums: Sequence[float],
    find_law: Any = None,
) -> Case:
    return Case(f"Poisson, {name}", why, Poisson(), prior, (*counts,), (*sums,), find_law)


RARE_CAMP = Mixture([Gamma(100.0, 50.0), TruncatedNormal(9.0, 0.05, 0.0, 12.0)], [0.999, 0.001])

CASES = (
    _case("rare camp", "the data lie in a camp of prior probability 0.001",
          RARE_CAMP, (10, 20, 3), (62, 130, 6)),
    _case("rare camp, density only", "the same, and the prior does not say that arms are "
          "independent", DensityOnly(RARE_CAMP), (10, 20, 3), (62, 130, 6)),
    _case("nothing ever", "Gamma(0.01, 0.01): means as small as 1e-300",
          Gamma(0.01, 0.01), (10, 10, 0), (0, 0, 0), log_law),
    _case("cut at 6", "the data lie beyond the support",
          TruncatedNormal(3.0, 0.5, 0.0, 6.0), (100, 100, 100), (900, 880, 860)),
    _case("1e9 pulls", "two arms a standard error apart",
          Gamma(2.0, 1.0), (10**9, 10**9, 3), (3_000_000_000, 3_000_080_000, 7)),
    _case("spike of 1e-3, 1e6 pulls", "4 standard errors from the spike",
          Mixture([TruncatedNormal(3.0, 1e-3, 0.0, 12.0), Gamma(2.0, 1.0)], [0.9, 0.1]),
          (10**6, 10**6, 10**6), (3_007_000, 3_006_000, 3_000_000)),
)  # fmt: skip
