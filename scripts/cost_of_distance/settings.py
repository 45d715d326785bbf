"""The worlds and the agents of the study, as data, and what counts as no difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandit_gym.fidelity import load_suite

WORLDS = {case.world: case for case in load_suite().cases}
"""All of `fidelity-v1`, each with one of its cases."""

KINDS = tuple(dict.fromkeys(case.kind for case in WORLDS.values()))
"""Of priors: conjugate, truncated, mixture, rare, dependent."""

ALL = "all"
"""Worlds of every kind."""

PARTS = (0.1, 0.3, 1.0)
"""Of a run's steps: the horizons at which regret is looked at."""

SHARES = (0.25, 0.75)
"""Of a horizon, after which an exact agent's histories are looked at for the distance."""

NUM_REFERENCES = 4
"""Runs of the exact agent in each world, of which the average is what others are compared with."""

MARGIN = 0.1
"""Share of the exact agent's regret up to which a difference counts as none; set beforehand."""

LEVEL = 0.05

MIDDLING, DEAR = 0.5, 0.2
"""Shares of the replications for agents that cost above some 15 and 100 µs a decision."""


@dataclass(frozen=True)
class Contender:
    """An agent to compare with exact Thompson sampling.

    Attributes:
        label: on the page.
        entry: of an experiment.
        share: of the replications, less for those that are dear.
        lacks: kinds of priors that it cannot treat within this study's time.
        sampler: `module:name` of a sampler with the same law, where its distance is that one's.
    """

    label: str
    entry: dict[str, Any]
    share: float = 1.0
    lacks: tuple[str, ...] = ()
    sampler: str = ""


def _outsider(label: str, sampler: str, **options: Any) -> Contender:
    sampler = f"scripts.studies.outsiders:{sampler}"
    entry = {"agent": "cost_of_distance.agents:Outsider", "sampler": sampler}
    return Contender(label, entry, sampler=sampler, **options)


def _paper(delta: float, sigma: float, **options: Any) -> Contender:
    entry = {"agent": "racing_paper", "delta": delta, "sigma": sigma}
    return Contender(f"paper's race, δ = {delta:g}, σ = {sigma:g}", entry, **options)


_BENT, _MEAN_FIELD = "cost_of_distance.agents:", "scripts.studies.outsiders:mean_field"

CONTENDERS = (
    Contender("racing", {"agent": "racing"}),
    Contender("racing, 10 samples", {"agent": "racing", "stopping": 10}),
    Contender("racing, 1 sample", {"agent": "racing", "stopping": 1}),
    _paper(0.1, 0.3, share=MIDDLING),
    _paper(0.7, 0.1, share=MIDDLING),
    Contender("SMC, 1,000 particles", {"agent": "smc"}, share=MIDDLING),
    Contender("SMC, 100 particles", {"agent": "smc", "num_particles": 100}),
    Contender("exact, reference prior", {"agent": "exact", "prior": "reference"}),
    _outsider("Laplace", "laplace", share=MIDDLING),
    _outsider("unadjusted Langevin", "langevin", share=DEAR),
    Contender("mean-field variational", {"agent": f"{_BENT}MeanField"}, share=DEAR,
              lacks=("dependent",), sampler=_MEAN_FIELD),
    _outsider("moment-matched normal", "moment_matched"),
    Contender("ensemble of 30", {"agent": "scripts.studies.outsiders:EnsembleSampling"}),
    Contender("two draws agree", {"agent": f"{_BENT}Agreeing"}, share=MIDDLING,
              lacks=("dependent",)),
    Contender("one pull in ten at random", {"agent": f"{_BENT}Wavering"}),
)  # fmt: skip

SHOWN = {
    "racing": -1,
    "ensemble of 30": 1,
    "SMC, 100 particles": -1,
    "paper's race, δ = 0.7, σ = 0.1": 1,
    "two draws agree": 1,
    "one pull in ten at random": 1,
}
"""The marks of the picture, and the side that each name stands on."""
