"""The worlds of `fidelity-v1`, and how many pulls of each the suite looks at, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_gym.fidelity.priors import OneFactor
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture, spike_and_slab

NAME = "fidelity-v1"


@dataclass(frozen=True)
class World:
    """A problem, and where its histories are looked at.

    Attributes:
        name: of the problem.
        kind: conjugate, truncated, mixture, rare or dependent.
        likelihood: of rewards.
        prior: of the means, or the `OneFactor` that makes it.
        num_arms: K.
        pulls: a history is looked at after each of these numbers of pulls.
        means: (K,) true means; None draws them from the prior.
        is_game: whether whole runs of it are played for their regret.
    """

    name: str
    kind: str
    likelihood: Likelihood
    prior: Any
    num_arms: int
    pulls: tuple[int, ...]
    means: tuple[float, ...] | None = None
    is_game: bool = False


def _loadings(num_arms: int, low: float, high: float) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, num_arms).round(6).tolist())


def _rare(common: Any, rare: Any) -> Mixture:
    return Mixture([common, rare], [0.998, 0.002])


CONJUGATE = (
    World("Bernoulli, Beta(1, 1)", "conjugate", Bernoulli(), Beta(1.0, 1.0), 2, (0, 20, 10**6),
          means=(0.5, 0.5005)),
    World("Bernoulli, Beta(5, 5)", "conjugate", Bernoulli(), Beta(5.0, 5.0), 10, (100, 10**4)),
    World("Bernoulli, Beta(1, 1), 50 arms", "conjugate", Bernoulli(), Beta(1.0, 1.0), 50, (1000,)),
    World("exponential, InverseGamma(3, 2)", "conjugate", Exponential(), InverseGamma(3.0, 2.0),
          3, (10, 300)),
    World("exponential, InverseGamma(9, 8), 20 arms", "conjugate", Exponential(),
          InverseGamma(9.0, 8.0), 20, (10**5,)),
    World("Gaussian, N(0, 1)", "conjugate", Gaussian(), Normal(0.0, 1.0), 10, (30, 1000),
          is_game=True),
    World("Gaussian, N(0, 1), 50 arms", "conjugate", Gaussian(), Normal(0.0, 1.0), 50, (10**6,)),
    World("Poisson, Gamma(2, 1)", "conjugate", Poisson(), Gamma(2.0, 1.0), 3, (10, 300)),
    World("Poisson, Gamma(9, 3), 20 arms", "conjugate", Poisson(), Gamma(9.0, 3.0), 20, (10**5,)),
)  # fmt: skip

TRUNCATED = (
    World("Bernoulli, N(0.5, 0.1) cut to [0, 1]", "truncated", Bernoulli(),
          TruncatedNormal(0.5, 0.1), 10, (30, 1000, 10**6),
          means=(0.65, 0.6495, 0.6, 0.55, 0.5, 0.5, 0.45, 0.4, 0.35, 0.3), is_game=True),
    World("Bernoulli, N(0.1, 0.2) cut to [0, 1]", "truncated", Bernoulli(),
          TruncatedNormal(0.1, 0.2), 20, (200,)),
    World("exponential, N(1, 0.3) cut to [0, 3]", "truncated", Exponential(),
          TruncatedNormal(1.0, 0.3, 0.0, 3.0), 10, (0, 100, 10**4), is_game=True),
    World("Gaussian, N(0, 1) cut to [-1, 1]", "truncated", Gaussian(),
          TruncatedNormal(0.0, 1.0, -1.0, 1.0), 5, (50, 10**5),
          means=(0.9, 0.898, 0.5, 0.0, -0.5)),
    World("Poisson, N(3, 0.5) cut to [0, 6]", "truncated", Poisson(),
          TruncatedNormal(3.0, 0.5, 0.0, 6.0), 10, (100, 10**4), is_game=True),
    World("Poisson, N(1, 1) cut to [0, 4], 50 arms", "truncated", Poisson(),
          TruncatedNormal(1.0, 1.0, 0.0, 4.0), 50, (1000,)),
)  # fmt: skip

MIXTURES = (
    World("Bernoulli, spike and slab", "mixture", Bernoulli(),
          spike_and_slab(0.5, 0.01, Beta(1.0, 1.0), 0.7), 5, (50, 10**4)),
    World("Bernoulli, two camps, 50 arms", "mixture", Bernoulli(),
          Mixture([Beta(20.0, 60.0), Beta(60.0, 40.0)], [0.9, 0.1]), 50, (1000,)),
    World("exponential, two camps", "mixture", Exponential(),
          Mixture([InverseGamma(30.0, 29.0), InverseGamma(30.0, 58.0)], [0.8, 0.2]), 5, (40, 10**5),
          means=(2.01, 2.0, 1.0, 0.9, 1.1)),
    World("Gaussian, two scales", "mixture", Gaussian(),
          Mixture([Normal(0.0, 0.1), Normal(0.0, 2.0)], [0.8, 0.2]), 10, (100, 10**6),
          means=(0.1, 0.099, 0.05, 0.0, 0.0, 0.0, -0.1, -0.1, -2.0, -1.0)),
    World("Poisson, two camps", "mixture", Poisson(),
          Mixture([Gamma(40.0, 20.0), Gamma(160.0, 40.0)], [0.8, 0.2]), 5, (40, 10**4)),
)  # fmt: skip

RARE = (
    World("Bernoulli, rare camp", "rare", Bernoulli(),
          _rare(Beta(20.0, 20.0), TruncatedNormal(0.85, 0.02)), 5, (60, 1000),
          means=(0.85, 0.55, 0.5, 0.45, 0.6)),
    World("exponential, rare camp", "rare", Exponential(),
          _rare(InverseGamma(30.0, 29.0), TruncatedNormal(4.0, 0.2, 0.0, 10.0)), 3, (30,),
          means=(4.0, 1.1, 0.9)),
    World("Gaussian, rare camp", "rare", Gaussian(),
          _rare(Normal(0.0, 1.0), Normal(6.0, 0.1)), 4, (8, 1000), means=(6.0, 1.0, 0.0, -1.0)),
    World("Poisson, rare camp", "rare", Poisson(),
          _rare(Gamma(100.0, 50.0), TruncatedNormal(6.0, 0.1, 0.0, 12.0)), 3, (15,),
          means=(2.0, 6.0, 2.2)),
)  # fmt: skip

DEPENDENT = (
    World("Bernoulli, one factor", "dependent", Bernoulli(),
          OneFactor(0.5, _loadings(10, 0.05, 0.3), 0.1, 0.0, 1.0), 10, (0, 100, 10**4),
          is_game=True),
    World("Bernoulli, two arms opposed", "dependent", Bernoulli(),
          OneFactor(0.5, (0.3, -0.3), 0.1, 0.0, 1.0), 2, (10, 10**6), means=(0.5, 0.5005)),
    World("exponential, one factor", "dependent", Exponential(),
          OneFactor(1.0, _loadings(5, -0.3, 0.3), 0.2, 0.0, 3.0), 5, (50,)),
    World("Gaussian, one factor, 20 arms", "dependent", Gaussian(),
          OneFactor(0.0, _loadings(20, -1.0, 1.0), 0.5, -4.0, 4.0), 20, (200,)),
    World("Poisson, one factor", "dependent", Poisson(),
          OneFactor(3.0, _loadings(5, 0.2, 1.0), 0.4, 0.0, 8.0), 5, (50, 10**4)),
)  # fmt: skip

WORLDS = (*CONJUGATE, *TRUNCATED, *MIXTURES, *RARE, *DEPENDENT)
