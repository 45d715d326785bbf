"""What the paper claims, as the rows of a matrix: sentences that can fail.

"No difference" is a margin of 10 % of exact Thompson sampling's regret in the same replications,
stated before anything was run. So "outperforms" is by more than the margin, "competitive" is behind
by no more than it, and "similar" is within it on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from pages.command import Task

from paper import measures, table1
from paper.deciding import Measure
from paper.races import Problem
from paper.readings import Reading
from paper.settings import (
    DELTAS,
    FIGURE_1B,
    SIGMAS,
    TABLE_2,
    beta_world,
    drawn_beta_world,
    topics_world,
)
from paper.theorem1 import PROMISE
from paper.trials import Trial

NUM_PROBLEMS = 12


class Source(Protocol):
    """What a claim is about."""

    def sample(self, task: Task, look: int) -> Any:
        """Return what is measured at a look, so many times as much as at the first."""

    def pilot(self, task: Task, reading: Reading) -> float:
        """Return how many samples a race takes, as a few show; raise ValueError if none can."""


class Claim(NamedTuple):
    """A sentence that can fail.

    Attributes:
        sentence: in words.
        quantity: what is estimated for it.
        source: what it is about.
        measure: (sample of the source, reading) -> the quantity and its limits.
        refusal: reading -> why the claim does not apply, empty if it does.
    """

    sentence: str
    quantity: str
    source: Source
    measure: Callable[[Any, Reading], Measure]
    refusal: Callable[[Reading], str] = lambda reading: ""


class Fact(NamedTuple):
    """A source of one number that is worked out and not drawn."""

    compute: Callable[[], float]

    def sample(self, task: Task, look: int) -> float:
        """Return the number."""
        return self.compute()

    def pilot(self, task: Task, reading: Reading) -> float:
        """Return 0, since nothing is raced."""
        return 0.0


def table_1_claims() -> Iterator[Claim]:
    """Yield of each row that the posterior follows from the prior, and that this is Jeffreys'."""
    for row in table1.ROWS:
        name = row[0].name
        yield Claim(
            f"{name}: the posterior follows from the prior",
            "largest error of five quantiles, as probability",
            Fact(partial(table1.quantile_error, row)),
            _is_nothing,
            _needs_reference,
        )
        yield Claim(
            f"{name}: the prior is Jeffreys'",
            "log-ratio of the two densities, largest less smallest",
            Fact(partial(table1.distance_from_jeffreys, row[0])),
            _is_nothing,
            _needs_reference,
        )


def table_2_claims() -> Iterator[Claim]:
    """Yield both numbers of each cell of Table 2, and what the paper reads from them."""
    trial = Trial("Beta(5, 5)", partial(_given, beta_world(10)), lanes=8)
    for (i, delta), (j, sigma) in product(enumerate(DELTAS), enumerate(SIGMAS)):
        at, (samples, regret) = {"delta": delta, "sigma": sigma}, TABLE_2[i, j]
        yield Claim(
            f"δ = {delta}, σ = {sigma}: {samples} samples",
            "samples a decision, within 10 % of the paper's",
            trial,
            partial(measures.samples_near, at=at, paper=samples),
            _needs_sigma,
        )
        yield Claim(
            f"δ = {delta}, σ = {sigma}: a regret of {regret}",
            f"regret, within {measures.TEN_RUNS:g} of the paper's",
            trial,
            partial(measures.regret_near, at=at, paper=regret),
            _needs_sigma,
        )
    yield from _trends(trial)


def _trends(trial: Trial) -> Iterator[Claim]:
    for name, axis, refusal in (("σ", 1, _needs_sigma), ("δ", 0, Claim._field_defaults["refusal"])):
        ends = f"at {name} = 0.1 and 0.7, averaged over the other parameter"
        yield Claim(
            f"the smaller {name}, the more samples",
            f"difference of samples {ends}",
            trial,
            partial(measures.more_samples, axis=axis),
            refusal,
        )
        effect = _paper_effect(axis)
        yield Claim(
            f"the smaller {name}, the smaller the regret, by half the paper's own {effect:.0%} "
            "at least",
            f"difference of regrets {ends}",
            trial,
            partial(measures.less_regret, axis=axis, share=effect / 2),
            refusal,
        )


def figure_1a_claims() -> Iterator[Claim]:
    """Yield what is said of conjugate priors, each batch with a prior of its own."""
    trial = Trial("Beta(a, b)", drawn_beta_world, lanes=4, is_drawn=True)
    yield Claim(
        "Racing is competitive with vanilla Thompson sampling",
        "regret less exact Thompson's",
        trial,
        measures.no_worse,
    )
    yield Claim(
        "about 400 samples are used in each time step",
        "samples a decision, from 300 to 500",
        trial,
        measures.about_400,
    )


def figure_1b_claims() -> Iterator[Claim]:
    """Yield what is said of truncated normal priors, in three choices of their parameters."""
    for world in (*FIGURE_1B[:2], FIGURE_1B[-1]):
        yield from _baseline_claims(Trial(world["label"], partial(_given, world), lanes=4))


def figure_2_claims() -> Iterator[Claim]:
    """Yield what is said of dependent priors, each batch with topics of its own."""
    yield from _baseline_claims(Trial("topics", topics_world, lanes=2, is_drawn=True))


def _baseline_claims(trial: Trial) -> Iterator[Claim]:
    less = "regret less Racing's"
    yield Claim(
        f"{trial.name}: Racing outperforms Thompson with the improper Beta(1, 1) prior",
        f"Thompson's {less}",
        trial,
        measures.beats_thompson,
    )
    yield Claim(
        f"{trial.name}: SMC is similar to Racing while T is small",
        f"SMC's {less} at t = {measures.EARLY_STEP}",
        trial,
        measures.resembles_smc,
    )
    yield Claim(
        f"{trial.name}: Racing outperforms SMC as T grows",
        f"SMC's {less} at T",
        trial,
        measures.beats_smc,
    )
    yield Claim(
        f"{trial.name}: Racing loses no more than exact Thompson sampling",
        "regret less exact Thompson's",
        trial,
        measures.no_worse,
    )


def theorem_1_claims() -> Iterator[Claim]:
    """Yield Theorem 1 in each of some random problems."""
    for number in range(NUM_PROBLEMS):
        yield Claim(
            f"problem {number + 1}: a race errs with probability at most Kδ",
            f"error frequency, at most {PROMISE:g}",
            Problem(number),
            measures.errs,
            _needs_line_12,
        )


def _is_nothing(error: float, reading: Reading) -> Measure:
    return Measure(np.array([error]), high=1e-6)


def _paper_effect(axis: int) -> float:
    """Return by which share of its average the paper's regret rises along an axis of Table 2."""
    regrets = TABLE_2[..., 1]
    edges = regrets.mean(axis=1 - axis)
    return float((edges[-1] - edges[0]) / regrets.mean())


def _given(world: Mapping[str, Any], batch: int) -> Mapping[str, Any]:
    return world


def _needs_reference(reading: Reading) -> str:
    return "" if reading.proposal == "reference" else "it does not draw from Table 1"


def _needs_sigma(reading: Reading) -> str:
    return "" if reading.has_paper_stop else "its stop reads no σ"


def _needs_line_12(reading: Reading) -> str:
    return "" if reading.has_paper_stop else "the theorem is about line 12 of Algorithm 2"
