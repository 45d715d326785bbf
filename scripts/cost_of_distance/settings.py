"""The worlds and the agents of the study, as data, and what counts as no difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suites.fidelity_v1 import WORLDS as SUITE_WORLDS

WORLDS = {
    world.name: world
    for name in (
        "Bernoulli, Beta(5, 5)",
        "Gaussian, N(0, 1) cut to [-1, 1]",
        "Bernoulli, spike and slab",
        "Bernoulli, two arms opposed",
    )
    for world in SUITE_WORLDS
    if world.name == name
}
"""Of `fidelity-v1`: conjugate, truncated, mixture, dependent."""

PARTS = (0.1, 0.3, 1.0)
"""Of a run's steps: the horizons at which regret is looked at."""

SHARES = (0.125, 0.375, 0.625, 0.875)
"""Of a horizon, after which an exact agent's histories are looked at for the distance."""

NUM_REFERENCES = 4
"""Runs of the exact agent in each world, of which the average is what others are compared with."""

MARGIN = 0.1
"""Share of the exact agent's regret up to which a difference counts as none; set beforehand."""

LEVEL = 0.05


MIDDLING, DEAR = 0.3, 0.12
"""Shares of the replications for agents that cost above some 15 and 100 µs a decision."""


@dataclass(frozen=True)
class Contender:
    """An agent to compare with exact Thompson sampling.

    Attributes:
        label: on the page.
        entry: of an experiment.
        kind: "ours", "paper", "outsider" or "bent", which is exact with its law bent on purpose.
        share: of the replications, less for those that are dear.
        lacks: worlds that it cannot treat, or not within this study's time.
        sampler: `module:name` of a sampler with the same law, where its distance is that one's.
    """

    label: str
    entry: dict[str, Any]
    kind: str
    share: float = 1.0
    lacks: tuple[str, ...] = ()
    sampler: str = ""


def _outsider(label: str, sampler: str, **options: Any) -> Contender:
    sampler = f"outsiders.{sampler}"
    entry = {"agent": "cost_of_distance.agents:Outsider", "sampler": sampler}
    return Contender(label, entry, "outsider", sampler=sampler, **options)


def _paper(delta: float, sigma: float, **options: Any) -> Contender:
    entry = {"agent": "racing_paper", "delta": delta, "sigma": sigma}
    return Contender(f"paper's race, δ = {delta:g}, σ = {sigma:g}", entry, "paper", **options)


_SLAB, _OPPOSED = "Bernoulli, spike and slab", "Bernoulli, two arms opposed"
_BENT, _MEAN_FIELD = "cost_of_distance.agents:", "outsiders.mean_field:mean_field"

CONTENDERS = (
    Contender("racing", {"agent": "racing"}, "ours"),
    Contender("racing, 10 samples", {"agent": "racing", "stopping": 10}, "ours"),
    Contender("racing, 1 sample", {"agent": "racing", "stopping": 1}, "ours"),
    _paper(0.1, 0.1, share=DEAR, lacks=(_SLAB, _OPPOSED)),
    _paper(0.1, 0.3, share=MIDDLING),
    _paper(0.7, 0.1, share=MIDDLING),
    Contender("SMC, 1,000 particles", {"agent": "smc"}, "paper", share=MIDDLING),
    Contender("SMC, 100 particles", {"agent": "smc", "num_particles": 100}, "paper"),
    Contender("exact, reference prior", {"agent": "exact", "prior": "reference"}, "paper"),
    _outsider("Laplace", "laplace:laplace", share=MIDDLING),
    _outsider("unadjusted Langevin", "langevin:langevin", share=DEAR),
    Contender("mean-field variational", {"agent": f"{_BENT}MeanField"}, "outsider", share=DEAR,
              lacks=(_OPPOSED,), sampler=_MEAN_FIELD),
    _outsider("moment-matched normal", "moments:moment_matched"),
    Contender("ensemble of 30", {"agent": "outsiders.ensemble:EnsembleSampling"}, "outsider"),
    Contender("two draws agree", {"agent": f"{_BENT}Agreeing"}, "bent", share=MIDDLING,
              lacks=(_OPPOSED,)),
    Contender("one pull in ten at random", {"agent": f"{_BENT}Wavering"}, "bent"),
)  # fmt: skip

SHOWN = {
    "racing": 1,
    "moment-matched normal": 1,
    "ensemble of 30": 1,
    "SMC, 100 particles": -1,
    "paper's race, δ = 0.7, σ = 0.1": 1,
    "two draws agree": 1,
    "one pull in ten at random": 1,
}
"""The marks of the picture, and the side that each name stands on."""
