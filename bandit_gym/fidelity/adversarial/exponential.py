"""Exponential rewards, arms independent a priori."""

from collections.abc import Sequence
from typing import Any

from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.priors import DensityOnly
from bandit_gym.likelihoods import Exponential
from bandit_gym.priors import InverseGamma, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture


def _case(name: str, why: str, prior: Any, counts: Sequence[int], sums: Sequence[float]) -> Case:
    return Case(f"exponential, {name}", why, Exponential(), prior, (*counts,), (*sums,))


RARE_CAMP = Mixture(
    [InverseGamma(30.0, 29.0), TruncatedNormal(5.0, 0.05, 0.0, 10.0)], [0.999, 0.001]
)

CASES = (
    _case("rare camp", "the data lie in a camp of prior probability 0.001",
          RARE_CAMP, (40, 60, 5), (190.0, 240.0, 6.0)),
    _case("rare camp, density only", "the same, and the prior does not say that arms are "
          "independent", DensityOnly(RARE_CAMP), (40, 60, 5), (190.0, 240.0, 6.0)),
    _case("heavy tail", "a prior without variance, arms without data",
          InverseGamma(1.1, 0.1), (0, 1, 3, 20), (0.0, 4.0, 0.1, 10.0)),
    _case("cut at 3", "the data lie beyond the support",
          TruncatedNormal(1.0, 0.3, 0.0, 3.0), (50, 50, 40), (400.0, 380.0, 340.0)),
    _case("1e9 pulls", "two arms a standard error apart",
          InverseGamma(3.0, 2.0), (10**9, 10**9, 10), (1.0e9, 1.00004e9, 8.0)),
    _case("spike of 1e-5, 1e8 pulls", "3 standard errors from the spike",
          Mixture([TruncatedNormal(1.0, 1e-5, 0.0, 9.0), InverseGamma(3.0, 2.0)], [0.5, 0.5]),
          (10**8, 10**8, 50), (1.0003e8, 1.0e8, 55.0)),
)  # fmt: skip
