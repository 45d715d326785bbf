"""Bernoulli rewards, arms independent a priori."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.priors import DensityOnly
from bandit_gym.fidelity.truth import Data, log_odds_law
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture, spike_and_slab
from bandit_gym.typing import FloatArray

MILLIARD = 1_000_000_000


def comb(num_teeth: int, width: float) -> Mixture:
    """Return the law of means that are near one of several equally likely values."""
    places = (np.arange(num_teeth) + 0.5) / num_teeth
    return Mixture([TruncatedNormal(place, width) for place in places], [1.0] * num_teeth)


def _case(
    name: str,
    why: str,
    prior: Any,
    counts: Sequence[int],
    sums: Sequence[float],
    find_law: Any = None,
) -> Case:
    return Case(f"Bernoulli, {name}", why, Bernoulli(), prior, (*counts,), (*sums,), find_law)


def _evenly(prior: Any, data: Data) -> FloatArray:
    """Return the law of arms that are all alike."""
    return np.full(len(data[0]), 1 / len(data[0]))


RARE_CAMP = Mixture([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [0.998, 0.002])
NARROW = spike_and_slab(0.5, 1e-4, Beta(1.0, 1.0), 0.5)
NARROWEST = spike_and_slab(0.5, 1e-7, Beta(1.0, 1.0), 0.5)

CASES = (
    _case("rare camp", "the data lie in a camp of prior probability 0.002",
          RARE_CAMP, (30, 1000), (30, 850)),
    _case("rare camp, density only", "the same, and the prior does not say that arms are "
          "independent", DensityOnly(RARE_CAMP), (30, 1000), (30, 850)),
    _case("rare camp, no data of it", "the camp has no data yet and still is best at times",
          RARE_CAMP, (200, 3, 0, 0), (100, 3, 0, 0)),
    _case("rarer camp, ten arms", "a camp of probability 1e-6 in which four arms lie",
          Mixture([Beta(20.0, 20.0), TruncatedNormal(0.9, 0.01)], [1 - 1e-6, 1e-6]),
          (400,) * 4 + (50,) * 6, (359, 361, 362, 358, 25, 24, 26, 27, 23, 25)),
    _case("spike of 1e-4, 32,152 pulls", "3 standard errors from the spike",
          NARROW, (32_152, 32_152, 40), (16_346, 16_076, 20)),
    _case("spike of 1e-4, 1e8 pulls", "the data are narrower than the spike",
          NARROW, (10**8, 10**8, 1000), (50_013_000, 50_010_000, 502)),
    _case("spike of 1e-7, 1e6 pulls", "4 standard errors from a spike far narrower",
          NARROWEST, (10**6, 10**6, 10**6), (502_000, 502_100, 500_500)),
    _case("spike of 1e-7, 1e9 pulls", "2 standard errors from a spike far narrower",
          NARROWEST, (MILLIARD, MILLIARD), (500_031_000, 500_010_000)),
    _case("comb of 9 teeth", "the data lie between teeth",
          comb(9, 0.002), (500, 500, 100), (278, 270, 57)),
    _case("comb of 40 teeth, density only", "the data lie between narrow teeth",
          DensityOnly(comb(40, 1e-4)), (10_000, 10_000), (5_003, 4_980)),
    _case("bathtub Beta(0.01, 0.01)", "means lie nearer to 1 than numbers do",
          Beta(0.01, 0.01), (3, 3, 0, 0), (2, 1, 0, 0), log_odds_law),
    _case("bathtub Beta(0.1, 0.1)", "densities without bound at both ends",
          Beta(0.1, 0.1), (8, 1, 5, 2, 0), (7, 1, 5, 1, 0), log_odds_law),
    _case("1e9 pulls", "two arms 1.3 standard errors apart",
          Beta(1.0, 1.0), (MILLIARD, MILLIARD, 5), (500_000_000, 500_020_000, 2)),
    _case("1e9 pulls, cut normal", "the same where no prior is conjugate",
          TruncatedNormal(0.3, 0.1), (MILLIARD, MILLIARD, 5), (500_000_000, 500_020_000, 2)),
    _case("prior against data", "10 standard errors apart, either way",
          TruncatedNormal(0.2, 0.01), (1000, 1000, 1000), (380, 372, 40)),
    _case("prior against data, density only", "10 standard errors apart, either way",
          DensityOnly(TruncatedNormal(0.2, 0.01)), (1000, 1000, 1000), (380, 372, 40)),
    _case("sure prior", "Beta(1e6, 1e6) is 700 times narrower than the reference",
          Beta(1e6, 1e6), (1000,) * 4, (520, 500, 480, 510)),
    _case("cut at 0.2", "the data lie far outside the support",
          TruncatedNormal(0.5, 0.1, 0.2, 0.8), (1000, 1000, 1000), (150, 152, 148)),
    _case("arms cut apart", "supports of arms that hardly overlap",
          TruncatedNormal((0.2, 0.6, 0.5), 0.2, (0.0, 0.29, 0.1), (0.3, 1.0, 0.31)),
          (20, 10, 2), (18, 1, 2)),
    _case("hundred arms", "one pull of half of the arms", Beta(1.0, 1.0),
          (1,) * 50 + (0,) * 50, (1, 0) * 25 + (0,) * 50),
    _case("hundred arms, one rare", "ninety-nine arms in a camp, one maybe in another",
          RARE_CAMP, (20,) + (40,) * 99, (19,) + (20,) * 99),
    _case("fifty arms alike", "all arms have the same data",
          spike_and_slab(0.5, 1e-3, Beta(1.0, 1.0), 0.9), (10,) * 50, (5,) * 50, _evenly),
)  # fmt: skip
