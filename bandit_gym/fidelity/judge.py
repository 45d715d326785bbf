"""What becomes of an agent in a case: right, flagged, refused or WRONG.

An agent is given the case's data in fresh lanes and decides once in each. Let the *excess* of some
decisions be the total variation between the frequencies of their arms and the truth, less what as
many exact decisions would show on average. The agent is

- **right** if the excess of all its decisions is at most 0.02;
- **flagged** if it is not, but says so: `is_unreliable` holds for nine in ten decisions at least,
  or the other decisions by themselves are right;
- **refused** if it declines in one sentence that names an agent which can decide;
- **WRONG** in every other case, whatever it raises included.

Where a lane keeps draws of the posterior for a whole run (particles), averaging over lanes hides a
collapse. There each lane's law is known; the average of their distances is judged too, its noise
that of as many exact draws as the lane keeps, and the larger excess counts.

An excess that chance gives an exact agent once in a thousand cases is no evidence, whatever its
size: with few decisions "right" says little, so tables say how many there were.

Letters: D decisions, K arms.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.experiments.catalogue import agent_names, load_agent
from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.settings import Setting
from bandit_gym.typing import BoolArray, FloatArray

RIGHT, FLAGGED, REFUSED, WRONG = "right", "flagged", "refused", "WRONG"
LARGEST_EXCESS = 0.02
FLAGGED_SHARE = 0.9
LEVEL = 0.999
FIRST_LANES, MOST_LANE_ARMS = 10, 10_000
"""Decisions made first; lanes times arms at a time, thereafter."""

MOST_MEANS = 30_000_000
"""Samples times arms after which no more lanes are asked: races without end get few decisions."""


class Judgement(NamedTuple):
    """What became of a setting in a case.

    Attributes:
        case: its name.
        setting: its label.
        verdict: RIGHT, FLAGGED, REFUSED or WRONG.
        excess: of all decisions; NaN if there are none.
        flagged: share of decisions that were flagged.
        silent_excess: of the others; NaN if there are none.
        decisions: how many.
        seconds: they took, in all.
        words: of whoever refused or failed.
    """

    case: str
    setting: str
    verdict: str
    excess: float = np.nan
    flagged: float = np.nan
    silent_excess: float = np.nan
    decisions: int = 0
    seconds: float = np.nan
    words: str = ""


class Gap(NamedTuple):
    """Between some decisions and the truth.

    Attributes:
        excess: distance less its average for exact decisions.
        noise: what chance would give exact decisions once in a thousand cases.
    """

    excess: float
    noise: float

    @property
    def is_right(self) -> bool:
        """Whether the excess is small, or what chance may give."""
        return self.excess <= max(LARGEST_EXCESS, self.noise)


class Decisions(NamedTuple):
    """Laws of D decisions, each (K,) certain of the arm it took unless known, and (D,) flags."""

    laws: FloatArray
    is_unreliable: BoolArray


def judge(setting: Setting, case: Case, *, scale: float = 1.0, seed: int = 0) -> Judgement:
    """Put an agent to a case and say what became of it.

    Args:
        setting: the agent.
        case: the problem, its data and the truth.
        scale: share of the setting's decisions to make.
        seed: of the agent.
    """
    num_decisions = max(10, round(scale * setting.num_decisions))
    key = zlib.crc32(f"{case.name}/{setting.label}".encode())
    told, start = (case.name, setting.label), perf_counter()
    try:
        made = decide(setting, case, num_decisions, SeedSequence(seed, spawn_key=(key,)))
    except Exception as error:
        verdict = REFUSED if _is_refusal(error, setting.agent) else WRONG
        words = f"{type(error).__name__}: {error}"
        return Judgement(*told, verdict, seconds=perf_counter() - start, words=words)
    seconds, is_silent = perf_counter() - start, ~made.is_unreliable
    gap, silent = (
        gap_of(made.laws[chosen], case.law, setting.num_draws)
        for chosen in (slice(None), is_silent)
    )
    flagged = float(made.is_unreliable.mean())
    verdict = _verdict(gap, flagged, silent)
    shares = gap.excess, flagged, silent.excess
    return Judgement(*told, verdict, *shares, len(made.laws), seconds)


def decide(setting: Setting, case: Case, num_decisions: int, seed: SeedSequence) -> Decisions:
    """Make decisions, each in a lane that was given the case's data after a reset.

    There are fewer than asked for where they take more than MOST_MEANS means.
    """
    agent: Any = load_agent(agent_names()[setting.agent])(case.problem, **setting.options)
    laws: list[FloatArray] = []
    flags: list[BoolArray] = []
    num_samples = 0
    for size, lane_seed in batches(num_decisions, len(case.counts), seed):
        if num_samples * len(case.counts) > MOST_MEANS:
            break
        agent.reset(size, seed=lane_seed)
        agent.warm_start(case.counts, case.sums)
        arms = agent.act()
        told = agent.diagnostics()
        flags.append(told["is_unreliable"])
        num_samples += int(np.sum(told.get("num_samples", 0)))
        is_kept = setting.num_draws is not None
        laws.append(agent.action_probabilities() if is_kept else np.eye(len(case.counts))[arms])
    return Decisions(np.concatenate(laws), np.concatenate(flags).astype(bool))


def batches(
    num_decisions: int, num_arms: int, seed: SeedSequence
) -> Iterator[tuple[int, SeedSequence]]:
    """Yield numbers of lanes, a few at first, that add up to the decisions, and their seeds."""
    size = FIRST_LANES
    while num_decisions > 0:
        size = min(size, num_decisions)
        yield size, seed.spawn(1)[0]
        num_decisions, size = num_decisions - size, min(10 * size, MOST_LANE_ARMS // num_arms)


def gap_of(laws: FloatArray, truth: FloatArray, num_draws: int | None) -> Gap:
    """Return how much farther decisions are from the truth than exact ones would be.

    Args:
        laws: (D, K) of each decision; with num_draws=None, ones at the arms.
        truth: (K,) exact law.
        num_draws: that a law is made of, where it is that of a run.
    """
    if not len(laws):
        return Gap(np.nan, np.nan)
    gap = _gap(float(total_variation(laws.mean(axis=0), truth)), truth, len(laws))
    if num_draws is None:
        return gap
    return max(gap, _gap(float(total_variation(laws, truth).mean()), truth, num_draws))


def _gap(distance: float, truth: FloatArray, num_decisions: int) -> Gap:
    floor, high = noise_floor(truth, num_decisions, level=LEVEL)
    return Gap(distance - floor, high - floor)


def _verdict(gap: Gap, flagged: float, silent: Gap) -> str:
    if gap.is_right:
        return RIGHT
    return FLAGGED if flagged >= FLAGGED_SHARE or silent.is_right else WRONG


def _is_refusal(error: Exception, agent: str) -> bool:
    """Say whether an error is one sentence that names another agent, which can."""
    text = str(error)
    others = {target.rpartition(":")[2] for name, target in agent_names().items() if name != agent}
    is_sentence = isinstance(error, ValueError) and "\n" not in text and text.endswith(".")
    return is_sentence and any(name in text for name in others)
