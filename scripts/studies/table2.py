"""Table 2 under every number of arms and reading: the paper says neither K nor all of line 12.

Algorithm 2 for Bernoulli arms with Beta priors, a run at a time in compiled code, so that thousands
of combinations can be played; `racing_paper` is compared with it in the tests. A *reading* is what
the text leaves open: the bound of line 12, what v is divided by, whether m is the number of draws
or one more, from what is drawn, and how many draws there are before a stop is tested.

Notation: K arms, R runs, d draws of a race, D deltas, S sigmas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from scipy import stats

from agents.racing.stopping import threshold_function
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.results.report import markdown_rows
from bandit_gym.styles import COLOURS, MAX_WIDTH, line_style
from scripts.studies.study import HOLDS, Found, StudyTask, parts_of, read_part, verdict

VALUE, WEIGHT, SUPREMUM = SCALES = "value", "weight", "supremum"
MAX_DRAWS = 5000
"""Of a race; at delta = sigma = .1 the printed bound ends any at 1,566."""

NUM_PAPER_RUNS, LAST_DIGIT = 10, 0.1
"""Runs of which the paper's numbers are averages, and their rounding."""

BY_K, EXACT, NEAREST = "Table 2, K = ", "Table 2: exact", "Table 2: nearest"
OF_1A = "Figure 1a by reading"
STOP_AT_ONCE = np.full(2, -np.inf)
"""Bars after one draw: from the posterior itself that is exact Thompson sampling."""


class Reading(NamedTuple):
    """How Algorithm 2 may be read.

    Attributes:
        threshold: "printed" or "shortened", as `threshold_function` has it.
        scale: of v, one of `SCALES`.
        is_matched: whether is drawn from the posterior itself, where all weights are equal.
        by_draws: whether m is the number of draws, not one more.
    """

    threshold: str
    scale: str
    is_matched: bool = False
    by_draws: bool = False

    def find_bars(self, delta: float, sigma: float, first_stop: int) -> FloatArray:
        """Return what m times the gap of the two best averages has to exceed after d draws."""
        m = np.arange(MAX_DRAWS + 1) + (0.0 if self.by_draws else 1.0)
        m[0] = 1.0
        bars = m * (2 * threshold_function(self.threshold, m, delta) - sigma)
        bars[:first_stop] = np.inf
        return bars


def play_reading(
    reading: Reading, bars: FloatArray, priors: FloatArray, horizon: int, seed: Any
) -> FloatArray:
    """Play runs of Algorithm 2 in Bernoulli problems with means from their priors.

    Args:
        reading: of Algorithm 2.
        bars: see `Reading.find_bars`.
        priors: (R, 2, K) alpha and beta of each arm, at least 1.
        horizon: T.
        seed: of all that is random; the means are the same for each reading.

    Returns:
        (3, R): samples of a decision, pseudo-regret of the run, and samples of its shortest race.
    """
    rng = np.random.default_rng(seed)
    means = rng.beta(priors[:, 0], priors[:, 1])
    scale = SCALES.index(reading.scale)
    return np.asarray(_play(rng, bars, scale, reading.is_matched, priors, means, horizon))


@kernel
def _play(
    rng: Generator,
    bars: np.ndarray,
    scale: int,
    is_matched: bool,
    priors: np.ndarray,
    means: np.ndarray,
    horizon: int,
) -> np.ndarray:
    found = np.zeros((3, len(priors)))
    found[2] = np.inf
    for run in range(len(priors)):
        prior, mean = priors[run], means[run]
        weight = np.zeros_like(prior) if is_matched else prior - 1  # log w has these coefficients
        counted = prior - weight  # Beta(1 + ones, 1 + zeros), or the posterior
        supremum = _find_log_supremum(weight)
        for _ in range(horizon):
            best, d = _race(rng, bars, scale, weight, counted, supremum)
            reward = rng.random() < mean[best]  # line 17
            counted[0 if reward else 1, best] += 1
            found[0, run] += d / horizon
            found[1, run] += mean.max() - mean[best]
            found[2, run] = min(found[2, run], d)
    return found


@inner
def _race(
    rng: Generator,
    bars: np.ndarray,
    scale: int,
    weight: np.ndarray,
    counted: np.ndarray,
    supremum: float,
) -> tuple[int, int]:
    """Return the arm that lines 5 to 16 choose, and the draws of the race."""
    num_arms = weight.shape[1]
    eps, totals = np.empty(num_arms), np.zeros(num_arms)
    for k in range(num_arms):
        eps[k] = -math.log(rng.standard_exponential())  # line 5
    log_scale = supremum + eps.max() if scale == 2 else -np.inf
    is_alike = np.ptp(weight[0]) == np.ptp(weight[1]) == 0.0
    best, second, d, is_over = 0, 0.0, 0, False  # line 6
    while not is_over:  # line 7
        d += 1
        winner, log_weight = _draw(rng, weight, counted, is_alike)  # line 8
        log_value = log_weight + eps[winner]
        size = log_weight if scale == 1 else log_value
        if size > log_scale:
            totals *= math.exp(log_scale - size)
            second *= math.exp(log_scale - size)
            log_scale = size
        totals[winner] += math.exp(log_value - log_scale)  # line 10
        if winner != best:  # line 11
            second = max(second, min(totals[winner], totals[best]))
            best = winner if totals[winner] > totals[best] else best
        is_over = totals[best] - second > bars[d] or d == len(bars) - 1  # line 12
    return best, d


@inner
def _draw(
    rng: Generator, weight: np.ndarray, counted: np.ndarray, is_alike: bool
) -> tuple[int, float]:
    """Return the best arm of a draw of all means, and the log of its weight."""
    winner, top, log_weight, product_1, product_0 = 0, -1.0, 0.0, 1.0, 1.0
    for k in range(weight.shape[1]):
        ones, zeros = draw_gamma(rng, counted[0, k]), draw_gamma(rng, counted[1, k])
        x = ones / (ones + zeros)
        if x > top:
            winner, top = k, x
        if is_alike:
            product_1, product_0 = product_1 * x, product_0 * (1 - x)
        else:
            log_weight += weight[0, k] * math.log(x) + weight[1, k] * math.log1p(-x)
    if is_alike and (weight[0, 0] or weight[1, 0]):
        log_weight = weight[0, 0] * math.log(product_1) + weight[1, 0] * math.log(product_0)
    return winner, log_weight


@inner
def _find_log_supremum(weight: np.ndarray) -> float:
    """Return the largest log w, at x = a / (a + b) of each arm, a and b its coefficients."""
    supremum = 0.0
    for a, b in weight.T:
        supremum += a * math.log(a / (a + b)) if a > 0 else 0.0
        supremum += b * math.log(b / (a + b)) if b > 0 else 0.0
    return supremum


@inner
def draw_gamma(rng: Generator, shape: float) -> float:
    """Return a gamma variate of a shape >= 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        normal = rng.standard_normal()
        v = 1 + c * normal
        if v > 0.0:
            v, square, u = v * v * v, normal * normal, rng.random()
            if u < 1 - 0.0331 * square * square:
                return d * v
            if math.log(u) < square / 2 + d * (1 - v + math.log(v)):
                return d * v


# -- What is played -----------------------------------------------------------------------------


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each K and reading, for the nearest ones, and for Figure 1a."""
    settings = task.settings["table2"]
    found: dict[str, Callable[[], Any]] = {EXACT: partial(play_exact, task)}
    for num_arms, name in product(settings["runs"], settings["readings"]):
        found[f"{BY_K}{num_arms}: {name}"] = partial(play_table, task, name, int(num_arms))
    found[NEAREST] = partial(play_nearest, task, [*found])
    for name in settings["readings_1a"]:
        found[f"{OF_1A}: {name}"] = partial(play_1a, task, name)
    return found


def _count_runs(task: StudyTask, full: float) -> int:
    return max(2, round(task.scale * full))


def play_exact(task: StudyTask) -> dict[str, list[float]]:
    """Return K -> the mean regret of exact Thompson sampling, and its standard error."""
    num_runs, found = _count_runs(task, task.settings["table2"]["runs_exact"]), {}
    for num_arms in task.settings["table2"]["runs"]:
        regrets = _play_exact(np.full((num_runs, 2, int(num_arms)), 5.0), task, int(num_arms))
        found[num_arms] = [float(regrets.mean()), float(stats.sem(regrets))]
    return found


def _play_exact(priors: FloatArray, task: StudyTask, number: int) -> FloatArray:
    horizon, seed = task.size("horizon_table2"), [task.settings["seed"], number]
    exact = Reading("printed", VALUE, is_matched=True)
    return play_reading(exact, STOP_AT_ONCE, priors, horizon, seed)[1]


def play_table(task: StudyTask, name: str, num_arms: int) -> list[dict[str, Any]]:
    """Return samples and regrets of all cells of Table 2, for each number of draws before a stop.

    Returns:
        for each number the (D, S) means, and standard deviations over runs.
    """
    settings = task.settings
    full = settings["table2"]["runs"][str(num_arms)]
    is_slow = settings["table2"]["readings"][name]["scale"] == SUPREMUM
    num_runs = _count_runs(task, full * (settings["table2"]["supremum"] if is_slow else 1.0))
    first_stops = sorted({*settings["table2"]["first_stops"], num_arms})
    seed, reading = [settings["seed"], num_arms], Reading(**settings["table2"]["readings"][name])
    tables: list[dict[str, Any]] = []
    for first_stop, cells in _play_cells(task, reading, num_arms, first_stops, num_runs, seed):
        tables.append({"first stop": first_stop} | _describe_cells(cells) | {"runs": num_runs})
    return tables


def _play_cells(
    task: StudyTask,
    reading: Reading,
    num_arms: int,
    first_stops: Sequence[int],
    num_runs: int,
    seed: list[int],
) -> Iterator[tuple[int, FloatArray]]:
    """Yield numbers of draws before a stop, with (D, S, 2, R) samples and regrets of all cells."""
    deltas, sigmas = task.settings["deltas"], task.settings["sigmas"]
    priors, horizon = np.full((num_runs, 2, num_arms), 5.0), task.size("horizon_table2")
    played: dict[tuple[float, float], FloatArray] = {}
    for first_stop in first_stops:
        for number, level in enumerate(product(deltas, sigmas)):
            if level in played and played[level][2].min() >= first_stop:
                continue  # no race was so short: the same runs
            bars = reading.find_bars(*level, first_stop)
            played[level] = play_reading(reading, bars, priors, horizon, [*seed, number])
        cells = np.array([played[level][:2] for level in product(deltas, sigmas)])
        yield first_stop, cells.reshape(len(deltas), len(sigmas), 2, num_runs)


def _round(numbers: FloatArray) -> Any:
    return np.vectorize(lambda x: float(f"{x:.5g}"))(numbers).tolist()


def play_nearest(task: StudyTask, names: Sequence[str]) -> list[dict[str, Any]]:
    """Play the readings that are nearest once more, with more runs and another seed.

    Returns:
        for each, its name, K, draws before a stop, and the (D, S) means of samples and regrets and
        their standard deviations over runs. The first is the nearest by the samples at the smallest
        delta, and of equal ones that with the later stop.
    """
    settings, again = task.settings, task.settings["table2"]["again"]
    numbers = {name: read_part(task, name) for name in names}
    tables = []
    for fit in find_fits({"settings": settings, "numbers": numbers})[: again["readings"]]:
        stop = fit.num_arms if fit.first_stop == "K" else int(fit.first_stop)
        reading = Reading(**settings["table2"]["readings"][fit.reading])
        num_runs, seed = _count_runs(task, again["runs"]), [again["seed"], fit.num_arms]
        ((_, cells),) = _play_cells(task, reading, fit.num_arms, [stop], num_runs, seed)
        table = {"reading": fit.reading, "arms": fit.num_arms, "first stop": stop}
        tables.append(table | _describe_cells(cells) | {"runs": num_runs})

    def rank(table: dict[str, Any]) -> tuple[float, int]:
        return _rms(find_distances(settings, table, "samples")[:1]), -table["first stop"]

    return sorted(tables, key=rank)


def _describe_cells(cells: FloatArray) -> dict[str, Any]:
    """Return means and deviations of (D, S, 2, R) samples and regrets over runs."""
    table: dict[str, Any] = {}
    for which, numbers in zip(("samples", "regrets"), np.moveaxis(cells, 2, 0), strict=True):
        table[which] = _round(numbers.mean(axis=-1))
        table[f"{which} std"] = _round(numbers.std(axis=-1, ddof=1))
    return table


def play_1a(task: StudyTask, name: str) -> list[dict[str, Any]]:
    """Return samples and regret in problems of Figure 1a, beside exact Thompson sampling's.

    Returns:
        for each K that is tried, and each number of draws before a stop, the mean
        samples, the ratio of mean regrets, and the standard error of the difference over exact's.
    """
    settings, rows = task.settings["table2"], []
    reading, num_runs = (
        Reading(**settings["readings"][name]),
        _count_runs(task, settings["runs_1a"]),
    )
    horizon, seed = task.size("horizon_table2"), [task.settings["seed"], 0]
    for num_arms in settings["arms_1a"]:
        shape = num_runs, 2, num_arms
        priors = np.random.default_rng(2017).uniform(1.0, 10.0, size=shape).round(4)
        exact, played = _play_exact(priors, task, 0), None
        for first_stop in sorted({*settings["first_stops"], num_arms}):
            if played is None or played[2].min() < first_stop:
                bars = reading.find_bars(0.1, 0.1, first_stop)
                played = play_reading(reading, bars, priors, horizon, seed)
            samples, regrets, _ = played
            row = {"arms": num_arms, "first stop": first_stop, "samples": float(samples.mean())}
            row["ratio"] = float(regrets.mean() / exact.mean())
            rows.append(row | {"error": float(stats.sem(regrets - exact) / exact.mean())})
    return rows


# -- What fits the paper ------------------------------------------------------------------------


class Fit(NamedTuple):
    """How far a reading's table is from the paper's, in units of the noise of ten runs.

    Attributes:
        reading: its name.
        first_stop: draws before a stop is tested: 1, 2, 3 or K, as a text.
        num_arms: K, that whose regrets are nearest to the paper's.
        regrets: root mean square over all cells.
        fitted: of samples over the cells of the smallest delta, by which readings are chosen.
        judged: of samples over the other cells.
        within: how many of the others' samples are within 10 % of the paper's.
    """

    reading: str
    first_stop: str
    num_arms: int
    regrets: float
    fitted: float
    judged: float
    within: int


def find_distances(settings: Mapping[str, Any], table: Mapping[str, Any], which: str) -> FloatArray:
    """Return (D, S) differences from the paper's numbers, over their noise and ours.

    Ten runs have a variance of s^2 / 10, s the standard deviation of ours. That of regrets is about
    the same in all cells, which are pooled.
    """
    ours, std = np.array(table[which]), np.array(table[f"{which} std"])
    paper = np.array(settings[which])[: len(ours), : ours.shape[1]]
    squares = np.mean(std**2) if which == "regrets" else std**2
    variance = squares * (1 / NUM_PAPER_RUNS + 1 / table["runs"]) + LAST_DIGIT**2 / 12
    return np.asarray((ours - paper) / np.sqrt(variance))


def find_fits(found: Found) -> list[Fit]:
    """Return each reading at the K that its regrets choose, the nearest by samples first."""
    settings, fits = found["settings"], []
    tables = {
        (name, int(num_arms)): {table["first stop"]: table for table in played}
        for num_arms in settings["table2"]["runs"]
        for name, played in parts_of(found, f"{BY_K}{num_arms}").items()
    }
    stops = [*map(str, settings["table2"]["first_stops"]), "K"]
    for name, stop in product(settings["table2"]["readings"], stops):
        at_k = {
            num_arms: own[num_arms if stop == "K" else int(stop)]
            for (reading, num_arms), own in tables.items()
            if reading == name
        }
        regrets = {k: _rms(find_distances(settings, at_k[k], "regrets")) for k in at_k}
        best = min(regrets, key=lambda k: regrets[k])
        counts = find_distances(settings, at_k[best], "samples")
        ours = np.array(at_k[best]["samples"])
        paper = np.array(settings["samples"])[: len(ours), : ours.shape[1]]
        within = int(np.count_nonzero(abs(ours / paper - 1)[1:] <= 0.1))
        fits.append(
            Fit(name, stop, best, regrets[best], _rms(counts[:1]), _rms(counts[1:]), within)
        )
    return sorted(fits, key=lambda fit: (fit.fitted, -stops.index(fit.first_stop)))


def _rms(distances: FloatArray) -> float:
    return float(np.sqrt(np.mean(distances**2)))


# -- The page -----------------------------------------------------------------------------------

CAN_BE_MET, CANNOT = "can be met (K inferred)", "not met (K inferred)"


class Rise(NamedTuple):
    """How much larger a number is at the largest delta or sigma than at the smallest.

    Attributes:
        mean: over the other parameter.
        half: half the width of its interval.
        paper: the paper's.
    """

    mean: float
    half: float
    paper: float


def find_rise(found: Found, which: str, axis: int) -> Rise:
    """Return the rise of samples or regrets along an axis of the nearest table.

    Cells have seeds of their own, so that the variances of their means add. Four rises share the
    level.
    """
    settings, table = found["settings"], found["numbers"][NEAREST][0]
    ends = [np.take(np.array(table[name]), [0, -1], axis) for name in (which, f"{which} std")]
    averages, paper = (
        np.mean(each, axis=1 - axis) for each in (ends[0], np.take(settings[which], [0, -1], axis))
    )
    variance = np.sum(ends[1] ** 2) / table["runs"] / (ends[1].size / 2) ** 2
    half = float(stats.norm.isf(settings["level"] / 8) * math.sqrt(variance))
    return Rise(float(np.diff(averages)[0]), half, float(np.diff(paper)[0]))


def find_verdicts(found: Found) -> dict[str, tuple[str, str, str]]:
    """Return claim -> verdict of the nearest reading, what was measured, and the paper's."""
    settings, table, verdicts = found["settings"], found["numbers"][NEAREST][0], {}
    words = {"samples": "more samples", "regrets": "smaller the regret"}
    for (axis, name), which in product(enumerate("δσ"), words):
        rise = find_rise(found, which, axis)
        sign = -1 if which == "samples" else 1
        low, high = sign * rise.mean - rise.half, sign * rise.mean + rise.half
        word = verdict(low > 0, high < sign * rise.paper / 2)
        measured = f"{rise.mean:.1f} ± {rise.half:.1f} from the smallest {name} to the largest"
        met = CAN_BE_MET if word == HOLDS else word
        verdicts[f"the smaller {name}, the {words[which]}"] = met, measured, f"{rise.paper:.1f}"
    for claim, which, judged in (
        ("samples of the 12 cells that did not choose", "samples", slice(1, None)),
        ("regrets of all 16 cells", "regrets", slice(None)),
    ):
        distances = find_distances(settings, table, which)[judged]
        size, far = distances.size, int(np.count_nonzero(abs(distances) > 2))
        chance = math.sqrt(stats.chi2.isf(0.05, size) / size)
        measured = f"{_rms(distances):.1f} times the noise; {far} of {size} above 2"
        met = CAN_BE_MET if _rms(distances) <= chance else CANNOT
        verdicts[claim] = met, measured, f"by chance up to {chance:.1f}"
    return verdicts


def write_verdicts(found: Found) -> str:
    """Return the verdicts with what was measured."""
    titles = "verdict", "measured", "the paper"
    return markdown_rows(
        [
            {"claim": claim} | dict(zip(titles, (f"**{word}**", *details), strict=True))
            for claim, (word, *details) in find_verdicts(found).items()
        ]
    )


def write_cells(found: Found) -> str:
    """Return the nearest table, with the paper's numbers."""
    settings, nearest, rows = found["settings"], found["numbers"][NEAREST][0], []
    for i, delta in enumerate(settings["deltas"]):
        row = {"samples / regret (paper)": f"δ = {delta}"}
        for j, sigma in enumerate(settings["sigmas"]):
            ours = " / ".join(f"{nearest[which][i][j]:.1f}" for which in ("samples", "regrets"))
            paper = " / ".join(f"{settings[which][i][j]}" for which in ("samples", "regrets"))
            row[f"σ = {sigma}"] = f"{ours} ({paper})"
        rows.append(row)
    return markdown_rows(rows)


def write_arms(found: Found) -> str:
    """Return how far the regrets of all readings are from the paper's, for each K."""
    settings, rows = found["settings"], []
    for num_arms in settings["table2"]["runs"]:
        tables = [
            (_rms(find_distances(settings, table, "regrets")), np.mean(table["regrets"]))
            for played in parts_of(found, f"{BY_K}{num_arms}").values()
            for table in played
        ]
        distances, means = zip(*tables, strict=True)
        mean, error = found["numbers"][EXACT][num_arms]
        rows.append(
            {
                "K": num_arms,
                "regret of exact Thompson": f"{mean:.1f} ± {1.96 * error:.1f}",
                "of the readings (paper: 23.7)": f"{min(means):.1f} to {max(means):.1f}",
                "distance of 16 regrets": f"{min(distances):.1f} to {max(distances):.1f}",
                "readings nearest here": str(
                    sum(fit.num_arms == int(num_arms) for fit in find_fits(found))
                ),
            }
        )
    return markdown_rows(rows)


def write_readings(found: Found) -> str:
    """Return the eight readings whose counts of the first row are nearest."""
    rows = [
        {
            "reading": fit.reading,
            "stops from draw": fit.first_stop,
            "K": str(fit.num_arms),
            "regrets": f"{fit.regrets:.1f}",
            "samples, δ = 0.1": f"{fit.fitted:.1f}",
            "samples, others": f"{fit.judged:.1f}",
            "within 10 %, of 12": str(fit.within),
        }
        for fit in find_fits(found)[:8]
    ]
    return markdown_rows(rows)


def draw(found: Found) -> Figure:
    """Draw samples and regrets of the nearest table, beside the paper's."""
    figure, settings = Figure(figsize=(MAX_WIDTH, 7.4), layout="constrained"), found["settings"]
    nearest, sigmas = found["numbers"][NEAREST][0], settings["sigmas"]
    ours, theirs = COLOURS[:2]
    for axes, which in zip(figure.subplots(2), ("samples", "regrets"), strict=True):
        for number, delta in enumerate(settings["deltas"]):
            style, shifted = line_style(number), np.array(sigmas) + 0.012 * (number - 1.5)
            noise = 1.96 * np.array(nearest[f"{which} std"][number]) / math.sqrt(NUM_PAPER_RUNS)
            look = {"color": ours, "linestyle": style.dash, "label": f"ours, δ = {delta}"}
            axes.errorbar(shifted, nearest[which][number], noise, fmt=style.marker, **look)
            look = {"color": theirs, "fillstyle": "none", "label": f"the paper's, δ = {delta}"}
            axes.plot(shifted, settings[which][number][: len(sigmas)], style.marker, **look)
        axes.set(xlabel="σ", ylabel=which, xticks=sigmas)
    figure.axes[0].set(yscale="log", ylim=(1, None), ylabel="samples of a decision")
    figure.axes[1].set(ylim=(0, None), ylabel="regret of 1,000 steps")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    order = np.argsort([label.startswith("ours") for label in labels], kind="stable")
    parts = [handles[i] for i in order], [labels[i] for i in order]
    figure.legend(*parts, loc="outside lower center", ncols=2)
    return figure
