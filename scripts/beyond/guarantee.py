"""The self-normalised stop against its promise: how often a race that is clear of all errs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from distances.measure import noise_floor, total_variation
from numpy.random import Generator
from pages.command import Task
from pages.page import Section, Verdict, graded, markdown_table, with_ends
from paper.theorem1 import random_cases

from agents.racing.races import Races
from agents.racing.stopping import self_normalised_rule
from bandit_gym.results.statistics import Interval, proportion_interval

DELTA = 0.1
ENOUGH = 256.0
NUM_ARMS = 10
CAP = 20_000
CHUNK = 250
LANES = 1000

Weights = Callable[[Generator, np.ndarray], np.ndarray]


class Law(NamedTuple):
    """A law of weights: draws given the winning arms, and their expectation for each arm."""

    name: str
    draw: Weights
    expectations: np.ndarray
    is_trusted: bool = True
    """Whether the largest weight seen in a race is about the largest there is for every arm."""


class Ends(NamedTuple):
    """How R races ended: chosen arm, clear or not, wrong or not, samples; and the law wanted."""

    arms: np.ndarray
    is_clear: np.ndarray
    is_wrong: np.ndarray
    num_samples: np.ndarray
    target: np.ndarray


class Row(NamedTuple):
    """A row of the table: races with Gumbel eps, and with eps under which all arms tie."""

    name: str
    is_trusted: bool
    usual: Ends
    tied: Ends | None


def reproduce(task: Task) -> Section:
    """Race with weights of known law and on random problems, and count wrong winners."""
    rows = [*_rows_of_known_law(task.sizes["races"]), *_rows_of_problems(task.sizes)]
    return Section(
        title="Guarantee: the promise of the self-normalised stop",
        text=f"δ = {DELTA}, effective samples {ENOUGH:g} (at the default a race has "
        f"enough before it can be clear), K = {NUM_ARMS}; {task.sizes['races']} races "
        "a row with weights of known law, E[w] = 1 unless said otherwise, and the random problems "
        "of Theorem 1 (K = 4).\n\nThe promise is about races that end because the leader is "
        "*clear*: the share of all races that end so with an arm that is not the best of E[v] is "
        "at most δ. It is checked with Gumbel ε, as races have them, and with ε under which all "
        "arms tie but for one part in a million, where every clear winner but one is wrong. Races "
        "that end with *enough* effective samples may return any arm, by the law of "
        "self-normalised importance resampling. *Excess* is the distance of all races' arms from "
        "the law wanted, over that of as many exact draws.",
        body=[markdown_table([_cells(row) for row in rows])],
        verdicts=_verdicts(rows),
    )


def _rows_of_known_law(num_races: int) -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for law, (arms, shares) in product(_weight_laws(), _arm_laws().items()):
        usual, tied = (
            judge(race_known(rng, law, shares, num_races, is_tied=is_tied))
            for is_tied in (False, True)
        )
        rows.append(Row(f"{law.name}; {arms}", law.is_trusted, usual, tied))
    return rows


def _rows_of_problems(sizes: Mapping[str, int]) -> list[Row]:
    return [
        Row(
            f"random Bernoulli problems, {proposal} proposal",
            is_trusted=True,
            usual=judge(race_problems(sizes, proposal)),
            tied=None,
        )
        for proposal in ("reference", "matched")
    ]


def _arm_laws() -> dict[str, np.ndarray]:
    halves = 0.5 ** np.arange(NUM_ARMS)
    rare = np.array([0.82] + [0.02] * 9)
    return {"equal": np.full(NUM_ARMS, 0.1), "halving": halves / halves.sum(), "one of 82 %": rare}


def _weight_laws() -> list[Law]:
    ones, slope = np.ones(NUM_ARMS), np.linspace(0.2, 1.8, NUM_ARMS)
    lopsided = np.append(ones[:-1], 100.0)
    return [
        Law("all 1", lambda rng, winners: np.zeros(winners.shape), ones),
        Law("by arm, 0.2 to 1.8", lambda rng, winners: np.log(slope)[winners], slope),
        Law("lognormal, σ = 1", _lognormal(1.0), ones),
        Law("lognormal, σ = 1.5", _lognormal(1.5), ones),
        Law("Pareto, index 2.5", _pareto(2.5), ones),
        Law("Pareto, index 1.5", _pareto(1.5), ones),
        Law("last arm's: 50 in 1 of 50", _rare(50.0, 1 / 50), ones),
        Law("last arm's: 100,000 in 1 of 1,000", _rare(1e5, 1 / 1000), lopsided, is_trusted=False),
    ]


def _lognormal(std: float) -> Weights:
    """Return draws of log w, normal with E[w] = 1."""
    return lambda rng, winners: rng.normal(-(std**2) / 2, std, winners.shape)


def _pareto(index: float) -> Weights:
    """Return draws of log w, exponential with E[w] = 1."""
    shift = math.log(1 - 1 / index)
    return lambda rng, winners: rng.exponential(1 / index, winners.shape) + shift


def _rare(size: float, chance: float) -> Weights:
    """Return draws under which the last arm's weight is `size` or, mostly, zero."""

    def draw(rng: Generator, winners: np.ndarray) -> np.ndarray:
        is_large = rng.random(winners.shape) < chance
        lasts = np.where(is_large, math.log(size), -np.inf)
        return np.where(winners == NUM_ARMS - 1, lasts, 0.0)

    return draw


def race_known(
    rng: Generator, law: Law, shares: np.ndarray, num_races: int, *, is_tied: bool
) -> Iterator[tuple[Races, np.ndarray]]:
    """Yield races with independent winners and weights of a known law, and the arms' law wanted."""
    values = shares * law.expectations
    target = values / values.sum()
    tie = -np.log(target) + 1e-6 * (np.arange(NUM_ARMS) == NUM_ARMS - 1)
    rule = self_normalised_rule(DELTA, ENOUGH, CAP)
    trial = np.exp(law.draw(rng, rng.choice(NUM_ARMS, size=CAP, p=shares)))
    share = trial.mean() ** 2 / np.square(trial).mean()
    for start in range(0, num_races, LANES):
        size = (min(LANES, num_races - start), NUM_ARMS)
        gumbels = np.tile(tie, (size[0], 1)) if is_tied else rng.gumbel(size=size)
        race = Races.start(rule, gumbels, rule.lengths(np.full(len(gumbels), share)))
        lanes = np.arange(len(race.gumbels))
        while lanes.size:
            winners = rng.choice(NUM_ARMS, size=(lanes.size, CHUNK), p=shares)
            lanes = lanes[~race.feed(lanes, law.draw(rng, winners), winners)]
        yield race, target


def race_problems(sizes: Mapping[str, int], proposal: str) -> Iterator[tuple[Races, np.ndarray]]:
    """Yield races on the random problems of Theorem 1's check, and the arms' law wanted."""
    options = {
        "stopping": "self-normalised", "delta": DELTA, "effective_samples": ENOUGH,
        "proposal": proposal, "max_samples": CAP,
    }  # fmt: skip
    for seed, case in enumerate(random_cases(sizes["problems"])):
        yield case.race(sizes["races_per_problem"], seed, **options)


def judge(races: Iterable[tuple[Races, np.ndarray]]) -> Ends:
    """Look at how races ended, given the law wanted of their arms."""
    parts = []
    for race, target in races:
        with np.errstate(divide="ignore"):
            best = (race.gumbels + np.log(target)).argmax(axis=1)
        arms, num_samples = race.totals.argmax(axis=1), race.num_samples
        is_clear = num_samples < race.lengths
        targets = np.broadcast_to(target, race.gumbels.shape)
        parts.append((arms, is_clear, arms != best, num_samples, targets))
    return Ends(*map(np.concatenate, zip(*parts, strict=True)))


def excess(found: Ends) -> float:
    """Return the distance of the arms' shares from the law wanted, over that of exact draws."""
    target = found.target.mean(axis=0)
    shares = np.bincount(found.arms, minlength=len(target)) / len(found.arms)
    return float(total_variation(shares, target)) - noise_floor(target, len(found.arms))[0]


def _error(found: Ends) -> Interval:
    return proportion_interval((found.is_clear & found.is_wrong).astype(float))


def _cells(row: Row) -> dict[str, str]:
    found = row.usual
    return {
        "weights; arms": row.name,
        "clear": f"{found.is_clear.mean():.0%}",
        "clear and wrong [95 %]": with_ends(_error(found)),
        "the same, arms tied": "" if row.tied is None else with_ends(_error(row.tied)),
        "promise": f"{DELTA:g}",
        "enough and wrong": f"{(~found.is_clear & found.is_wrong).mean():.3f}",
        "samples": f"{found.num_samples.mean():.0f}",
        "excess": f"{excess(found):+.3f}",
    }


def _verdicts(rows: list[Row]) -> list[Verdict]:
    claims = {
        True: "a race that is clear of all arms is wrong with probability at most δ, also for "
        "heavy tails and for arms that tie",
        False: "the same where an arm lives on weights too rare to be seen, which no rule that "
        "knows no bound on the weights can promise",
    }
    return [
        _verdict(claim, [row for row in rows if row.is_trusted == is_trusted])
        for is_trusted, claim in claims.items()
    ]


def _verdict(claim: str, rows: list[Row]) -> Verdict:
    errors = {row.name: _error(row.usual) for row in rows}
    errors |= {f"{row.name}; tied": _error(row.tied) for row in rows if row.tied is not None}
    worst = max(errors, key=lambda name: errors[name].estimate)
    evidence = f"largest frequency {with_ends(errors[worst])} ({worst}) against {DELTA:g}"
    return Verdict(claim, graded(errors[worst].low <= DELTA), evidence)
