"""What `fidelity.py` measures, as data: problems, steps and agents' settings.

A new agent is a row of SETTINGS. Where it cannot treat a problem (its class says so by a
ValueError) the pair is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bandit_gym.envs.families import unit_vector_covariance
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

NUM_ARMS = 10
STEPS = (0, 10, 30, 100, 300, 1000, 10_000)
QUICK_STEPS = (0, 30)


@dataclass(frozen=True)
class Setting:
    """An agent to measure.

    Attributes:
        label: name in tables and pictures.
        agent: key of `agents.AGENTS`.
        options: keyword arguments of its class.
        family: settings of one family share a colour.
        num_decisions: how many to make at each step, at scale 1.
        num_lanes: how many at a time.
        num_warmups: decisions at each step that do not count; a Markov chain needs more of them
            here, where the data come all at once, than in a run.
    """

    label: str
    agent: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    num_decisions: int = 10_000
    num_lanes: int = 1000
    num_warmups: int = 1


def _race(
    delta: float, sigma: float, threshold: str = "printed", num_decisions: int = 10_000
) -> Setting:
    label = f"racing {threshold}, delta={delta:g}, sigma={sigma:g}"
    options = {"delta": delta, "sigma": sigma, "threshold": threshold}
    return Setting(label, "racing_paper", options, f"racing, {threshold} threshold", num_decisions)


def _fixed(num_samples: int) -> Setting:
    label = f"racing, {num_samples} samples"
    num_decisions = min(10_000, 3_000_000 // num_samples)
    options = {"proposal": "reference", "stopping": num_samples}
    return Setting(label, "racing", options, "racing, fixed length", num_decisions)


def _matched(stopping: str | int) -> Setting:
    options = {"stopping": stopping}
    label = f"racing matched, {stopping}"
    return Setting(label, "racing", options, "racing, matched proposal", num_decisions=100_000)


def _particles(num_particles: int, name: str = "smc", **options: Any) -> Setting:
    return Setting(
        f"{name}, {num_particles} particles",
        "smc",
        {"num_particles": num_particles, **options},
        name,
        num_decisions=min(10_000, 2_000_000 // num_particles),
        num_lanes=max(1, 500_000 // num_particles),  # 40 MB of particles at a time
    )


SETTINGS = (
    _race(0.1, 0.1, num_decisions=100_000),  # a bar is checked with it
    _race(0.1, 0.3),
    _race(0.1, 0.7),
    _race(0.7, 0.1),
    _race(0.1, 0.3, "shortened"),
    _race(0.7, 0.1, "shortened"),
    *map(_fixed, (1, 10, 100, 1000)),
    *map(_particles, (100, 300, 1000, 3000)),
    _particles(1000, "smc with moves", resampling="systematic", move="random-walk"),
    *map(_matched, ("self-normalised", 1, 10)),
    Setting("exact, conjugate", "exact", {"method": "conjugate"}, "exact"),
    Setting("exact, grid", "exact", {"method": "grid"}, "exact"),
    Setting("exact, gibbs", "exact", {"method": "gibbs"}, "exact", num_warmups=25),
    Setting("exact, reference prior", "exact", {"prior": "reference"}, "exact, reference prior"),
)

_SPREAD = tuple(0.2 + 0.6 * arm / (NUM_ARMS - 1) for arm in range(NUM_ARMS))


def _dependent(dimension: int, low: float = 0.0, high: float = 1.0) -> TruncatedMultivariateNormal:
    covariance = unit_vector_covariance(NUM_ARMS, dimension, 0).tolist()
    return TruncatedMultivariateNormal(0.5, covariance, low=low, high=high)


PROBLEMS = {
    name: BanditProblem(likelihood, prior, NUM_ARMS)
    for name, likelihood, prior in (
        ("Bernoulli, Beta(5, 5)", Bernoulli(), Beta(5.0, 5.0)),
        ("Bernoulli, N(0.5, 0.1) cut to [0, 1]", Bernoulli(), TruncatedNormal(0.5, 0.1)),
        ("Bernoulli, N(0.5, 0.3) cut to [0, 1]", Bernoulli(), TruncatedNormal(0.5, 0.3)),
        ("Bernoulli, N(0.2, 0.1) cut to [0, 1]", Bernoulli(), TruncatedNormal(0.2, 0.1)),
        (
            "Bernoulli, N(0.2 to 0.8, 0.1) cut to [0, 1]",
            Bernoulli(),
            TruncatedNormal(_SPREAD, 0.1),
        ),
        ("Bernoulli, dependent, dimension 10", Bernoulli(), _dependent(10)),
        ("Bernoulli, dependent, dimension 50", Bernoulli(), _dependent(50)),
        ("exponential, InverseGamma(3, 2)", Exponential(), InverseGamma(3.0, 2.0)),
        (
            "exponential, N(1, 0.3) cut to [0, 3]",
            Exponential(),
            TruncatedNormal(1.0, 0.3, low=0.0, high=3.0),
        ),
        ("exponential, dependent, dimension 50", Exponential(), _dependent(50, 0.0, 3.0)),
        ("Gaussian, N(0, 1)", Gaussian(), Normal(0.0, 1.0)),
        ("Gaussian, N(0, 1) cut to [-1, 1]", Gaussian(), TruncatedNormal(0.0, 1.0, low=-1.0)),
        ("Gaussian, dependent, dimension 50", Gaussian(), _dependent(50, -1.0, 2.0)),
        ("Poisson, Gamma(2, 1)", Poisson(), Gamma(2.0, 1.0)),
        ("Poisson, N(3, 0.5) cut to [0, 6]", Poisson(), TruncatedNormal(3.0, 0.5, high=6.0)),
        ("Poisson, dependent, dimension 50", Poisson(), _dependent(50, 0.0, 3.0)),
    )
}
QUICK_PROBLEMS = (
    "Bernoulli, N(0.5, 0.1) cut to [0, 1]",
    "Bernoulli, dependent, dimension 50",
    "exponential, InverseGamma(3, 2)",
)
