"""What is measured for a claim: a quantity in each cluster, and the limits that the claim names.

Each function is given a `Sample`, or a `RaceSample`, and a reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bandit_gym.typing import FloatArray
from paper.deciding import Measure
from paper.races import RaceSample
from paper.readings import Reading
from paper.settings import DELTAS, REFERENCE_TS, SIGMAS, TRUTH
from paper.theorem1 import PROMISE
from paper.trials import Sample

MARGIN = 0.1
"""Share of exact Thompson sampling's regret that counts as no difference."""

ABOUT_400 = (300.0, 500.0)
EARLY_STEP = 100
TEN_RUNS = 11.0
"""Twice the standard error of ten regrets whose standard deviation is 17, as ours in Table 2 is."""


def no_worse(sample: Sample, reading: Reading) -> Measure:
    """Racing's regret is above exact Thompson's by no more than the margin."""
    exact = sample.regrets(TRUTH)
    return Measure(sample.regrets(reading.entry()) - exact, high=MARGIN * exact)


def beats_thompson(sample: Sample, reading: Reading) -> Measure:
    """Thompson's with the Beta(1, 1) prior is above Racing's by more than the margin."""
    return _behind(sample, reading, REFERENCE_TS)


def beats_smc(sample: Sample, reading: Reading) -> Measure:
    """SMC's regret at the horizon is above Racing's by more than the margin."""
    return _behind(sample, reading, _smc(sample, reading))


def _behind(sample: Sample, reading: Reading, other: Mapping[str, Any]) -> Measure:
    excess = sample.regrets(other) - sample.regrets(reading.entry())
    return Measure(excess, low=MARGIN * sample.regrets(TRUTH))


def resembles_smc(sample: Sample, reading: Reading) -> Measure:
    """SMC's early regret is within the margin of Racing's."""
    ours, other, exact = (
        sample.regrets(agent, EARLY_STEP)
        for agent in (reading.entry(), _smc(sample, reading), TRUTH)
    )
    return Measure(other - ours, -MARGIN * exact, MARGIN * exact)


def _smc(sample: Sample, reading: Reading) -> dict[str, Any]:
    """Return SMC with as many particles at each step as Racing drew samples at the first look."""
    schedule = sample.schedule(reading.entry())
    return {"agent": "smc", "num_particles": schedule, "label": f"SMC, {reading.name}"}


def about_400(sample: Sample, reading: Reading) -> Measure:
    """Racing takes 300 to 500 samples a decision."""
    return Measure(sample.samples_per_decision(reading.entry()), *ABOUT_400)


def samples_near(
    sample: Sample, reading: Reading, at: Mapping[str, float], paper: float
) -> Measure:
    """A decision takes the paper's number of samples, within 10 %."""
    found = sample.samples_per_decision(reading.entry(**at))
    return Measure(found, 0.9 * paper, 1.1 * paper)


def regret_near(sample: Sample, reading: Reading, at: Mapping[str, float], paper: float) -> Measure:
    """The regret is the paper's, within two standard errors of its ten runs."""
    return Measure(sample.regrets(reading.entry(**at)), paper - TEN_RUNS, paper + TEN_RUNS)


def more_samples(sample: Sample, reading: Reading, axis: int) -> Measure:
    """More samples are taken at the small end of an axis of Table 2 than at the large."""
    small, large = (_edge(sample.samples_per_decision, reading, axis, end) for end in (0, -1))
    return Measure(small - large, low=0.0)


def less_regret(sample: Sample, reading: Reading, axis: int, share: float) -> Measure:
    """The regret rises along an axis of Table 2, by a share of exact Thompson's at least."""
    small, large = (_edge(sample.regrets, reading, axis, end) for end in (0, -1))
    return Measure(large - small, low=share * sample.regrets(TRUTH))


def _edge(
    look: Callable[[dict[str, Any]], FloatArray], reading: Reading, axis: int, end: int
) -> FloatArray:
    """Return the (C,) average over one edge of Table 2: over sigma at a delta, or the reverse."""
    if axis == 0:
        edge = [reading.entry(delta=DELTAS[end], sigma=sigma) for sigma in SIGMAS]
    else:
        edge = [reading.entry(delta=delta, sigma=SIGMAS[end]) for delta in DELTAS]
    return np.mean([look(entry) for entry in edge], axis=0)


def errs(sample: RaceSample, reading: Reading) -> Measure:
    """A race errs with the probability that Theorem 1 promises, at most."""
    return Measure(sample.errors(reading), high=PROMISE, are_outcomes=True)
