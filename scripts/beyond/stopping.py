"""When a race has enough: stopping as soon as it has, beside a length chosen before.

Letters: R races, m samples.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from pages.command import Task
from pages.page import Section, Verdict, graded, markdown_table

from agents.racing.vetting import NUM_PILOTS

SHARES = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
MASSES = np.linspace(0.05, 0.95, 19)
"""Of the posterior, in the rare draws of large weight; the worst of them counts."""

ENOUGH = 12
CAP = 4000


def reproduce(task: Task) -> Section:
    """Find the worst law of two weights for each share, under both ways to stop."""
    rng, num_races = np.random.default_rng(0), task.sizes["races"]
    rows = {share: _worst(rng, share, num_races) for share in SHARES}
    table = [{"share": f"{share:g}"} | _cells(row) for share, row in rows.items()]
    noise = 4 / num_races**0.5  # four standard errors of a frequency, and more
    worse = [share for share, row in rows.items() if row[1, 0] > row[0, 0] + noise]
    before, after = (max(row[way, 0] for row in rows.values()) for way in (0, 1))
    return Section(
        title="Stopping: when a race has enough",
        text=f"A draw weighs much or little, and what it weighs decides the arm. With {ENOUGH} "
        "effective samples wanted, races stop when their own weights reach that (before) or after "
        f"a length that {NUM_PILOTS} pilot draws have set, which decide nothing (after). For each "
        "share of effective samples per draw: the largest total variation between the arm's law "
        "and the exact one over all pairs of weights with that share, of which the heavier has "
        f"5 % to 95 % of the posterior, and the mean samples there; {num_races} races each.",
        body=[markdown_table(table)],
        verdicts=[
            Verdict(
                "a length chosen before errs no more at any share",
                graded(not worse),
                f"at most {after:.3f}, where stopping when it is reached errs by {before:.3f}",
            )
        ],
    )


def _cells(row: np.ndarray) -> dict[str, str]:
    (before, early), (after, late) = row
    return {
        "TV before": f"{before:.3f}",
        "TV after": f"{after:.3f}",
        "samples before": f"{early:.1f}",
        "samples after": f"{late:.1f}",
    }


def _worst(rng: Generator, share: float, num_races: int) -> np.ndarray:
    """Return (2, 2) largest distance, and samples there, before and after."""
    found = [
        _measure(rng, chance, mass, num_races)
        for mass in MASSES
        for chance in _chances_of_heavy(share, mass)
    ]
    return np.array([max((row[way] for row in found), key=lambda pair: pair[0]) for way in (0, 1)])


def _chances_of_heavy(share: float, mass: float) -> list[float]:
    """Return the chances p of heavy draws, with a mass, under which draws have that share.

    With weights mass / p and (1 - mass) / (1 - p) the mean is 1, and one over the share is
    mass^2 / p + (1 - mass)^2 / (1 - p), a quadratic equation in p.
    """
    b = (1 - mass) ** 2 - mass**2 - 1 / share
    root = np.sqrt(max(b * b - 4 / share * mass**2, 0.0))
    chance = (-b - root) * share / 2
    return [float(chance)] if 0.0 < chance <= mass else []


def _measure(rng: Generator, chance: float, mass: float, num_races: int) -> np.ndarray:
    """Return (2, 2) total variation and mean samples, of stopping when reached and before."""
    heavy, light = mass / chance, (1 - mass) / (1 - chance)
    pilots = rng.binomial(NUM_PILOTS, chance, num_races)
    shares = _effective(pilots, NUM_PILOTS - pilots, heavy, light) / NUM_PILOTS
    lengths = np.ceil(ENOUGH / shares).astype(int)
    after = _judge(rng.binomial(lengths, chance), lengths, (heavy, light), mass)
    num_heavy = np.zeros(num_races, dtype=int)
    ends, at_end = np.full(num_races, CAP), np.zeros(num_races, dtype=int)
    is_on = np.ones(num_races, dtype=bool)
    for m in range(1, CAP + 1):
        num_heavy[is_on] += rng.random(np.count_nonzero(is_on)) < chance
        is_over = is_on & (_effective(num_heavy, m - num_heavy, heavy, light) >= ENOUGH - 1e-9)
        ends[is_over], at_end[is_over] = m, num_heavy[is_over]
        is_on &= ~is_over
        if not is_on.any():
            break
    return np.array([_judge(at_end, ends, (heavy, light), mass), after])


def _effective(
    num_heavy: np.ndarray, num_light: np.ndarray, heavy: float, light: float
) -> np.ndarray:
    total = num_heavy * heavy + num_light * light
    return total**2 / (num_heavy * heavy**2 + num_light * light**2)


def _judge(
    num_heavy: np.ndarray, num_samples: np.ndarray, weights: tuple[float, float], mass: float
) -> tuple[float, float]:
    heavy, light = weights
    shares = num_heavy * heavy / (num_heavy * heavy + (num_samples - num_heavy) * light)
    return float(abs(shares.mean() - mass)), float(num_samples.mean())
