"""Measure how often 95 % intervals cover the truth, and how often tests at 5 % reject it.

Data sets of known truth are drawn again and again, from laws with light and with heavy tails and
from the regrets of two agents, and given to `bandit_gym.results.statistics`.

    python scripts/intervals.py --out docs        # makes docs/statistics.md
    python scripts/intervals.py --out /tmp/s --scale 0.05
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.random import Generator
from pages.command import add_scale, new_parser, scaled
from pages.page import Section, markdown_table, write_page
from scipy import stats

from agents import ExactThompson, Greedy
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.results import statistics
from bandit_gym.results.statistics import LEVEL, Interval
from bandit_gym.rollout import rollout
from bandit_gym.typing import FloatArray

SIZES = {"samples": 4000, "pool": 20_000}
NUM_ENVIRONMENTS = 5
NUM_AGENTS = 5
HORIZON = 200
SEED = 0

Law = Callable[[Generator, tuple[int, ...]], FloatArray]
"""Draws of a given shape from a law of mean 0."""

LAWS: dict[str, Law] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape) - 0.5,
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1.0,
    "lognormal, σ = 1": lambda rng, shape: rng.lognormal(size=shape) - np.exp(0.5),
    "Pareto, index 2.5": lambda rng, shape: rng.pareto(2.5, shape) - 1 / 1.5,
}
"""From the lightest tails to the heaviest."""

Row = dict[str, str]


class Part(NamedTuple):
    """A table: its heading, how to read it, what measures a row, and of what there are rows."""

    title: str
    text: str
    measure: Callable[..., Row]
    cells: Iterable[tuple[Any, ...]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/statistics", 1)
    add_scale(parser)
    options = parser.parse_args(arguments)
    sizes = scaled(SIZES, options.scale)
    num_samples, error = sizes["samples"], np.sqrt(0.05 * 0.95 / sizes["samples"])
    text = (
        f"Made by `python scripts/intervals.py --out docs --scale {options.scale:g}`: "
        f"{num_samples} data sets a row, so that a share of 0.05 or 0.95 has a standard error "
        f"of {error:.4f}. R is the number of replications. Below {statistics.MIN_REPLICATIONS} of "
        "them there are neither intervals nor tests."
    )
    sections = [
        Section(part.title, part.text, [markdown_table(_fill(part, num_samples, options.workers))])
        for part in parts(LAWS | laws_of_regrets(sizes["pool"]))
    ]
    title = "Statistics: what intervals and tests keep of their promise"
    write_page(options.out / "statistics.md", title, text, sections)
    return 0


def _fill(part: Part, num_samples: int, num_workers: int) -> list[Row]:
    parallel = joblib.Parallel(num_workers)
    print(part.title, flush=True)
    return list(parallel(joblib.delayed(part.measure)(*cell, num_samples) for cell in part.cells))


def parts(laws: Mapping[str, Law]) -> list[Part]:
    """Return the tables of the page."""
    return [
        Part(
            "Intervals of a mean",
            "Share of 95 % intervals that cover the mean. *Ours* is `mean_interval`: Student's, or "
            "where |skewness| > 0.1 √R the farther of its ends and the studentised bootstrap's. "
            "*Marked* is the share of samples that tables mark with a star, by the rule "
            "`is_coverage_doubtful`: fewer than 100 replications and |skewness| > 1. A mark says "
            "that the law may have a long tail, not that this interval misses: it is likeliest to "
            "miss where the tail has *not* shown itself in the sample, which no rule can see. The "
            "last column has how the intervals cover that are not marked. More replications are "
            "the only remedy.",
            cover_mean,
            product(laws.items(), (10, 20, 50, 100)),
        ),
        Part(
            "Tests of a paired difference",
            "Share of data sets of mean 0 that are rejected at p < 0.05. *Ours* is "
            "`paired_p_value`: Student's, or under the same rule the larger p-value of the two.",
            reject_mean,
            product(laws.items(), (20, 50, 100)),
        ),
        Part(
            "Averages over worlds",
            f"{NUM_ENVIRONMENTS} worlds whose scores share a part of their variance, as common "
            "seeds make them do. Share of 95 % intervals that cover the truth. *Ours* takes a "
            "replication with all its worlds for one value: `mean_interval` of the replications' "
            "means, and `bootstrap_interval` for the interquartile mean, on a quarter as many data "
            "sets. *Naive* takes every score for one value.",
            cover_worlds,
            product((0.0, 0.5, 1.0), (20, 100)),
        ),
        Part(
            "Shares",
            "Share of Wilson's 95 % intervals, `proportion_interval`, that cover the truth.",
            cover_share,
            product((0.02, 0.1, 0.5), (10, 20, 50, 100)),
        ),
        Part(
            "Verdicts",
            f"Share of reports on {NUM_AGENTS} agents, all as good as the reference, in which any "
            "verdict is not *undecided*: with Holm's correction, as tables have it, and without. A "
            "quarter as many data sets.",
            reject_any,
            product(list(laws.items())[:4], (20, 100)),
        ),
    ]


def laws_of_regrets(num_lanes: int) -> dict[str, Law]:
    """Return the laws of regrets of two agents and of their difference, drawn from a large pool."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 10)
    env = BanditVectorEnv(num_lanes, problem)
    averaging = partial(Greedy, estimate="average")
    exact, greedy = (
        np.sum(rollout(agent(problem), env, seed=SEED, horizon=HORIZON).pseudo_regret, axis=1)
        for agent in (ExactThompson, averaging)
    )
    return {
        "regret of exact Thompson": _from(exact),
        "regret of greedy": _from(greedy),
        "greedy less exact Thompson": _from(greedy - exact),
    }


def _from(values: FloatArray) -> Law:
    """Return the law of draws with replacement from a pool, less its mean."""
    return lambda rng, shape: rng.choice(values, shape) - values.mean()


def cover_mean(law: tuple[str, Law], count: int, num_samples: int) -> Row:
    samples = law[1](np.random.default_rng(SEED), (num_samples, count))
    is_covered = np.array([covers(statistics.mean_interval(each)) for each in samples])
    is_marked = np.array([statistics.is_coverage_doubtful(each) for each in samples])
    half = stats.t.ppf(1 - LEVEL / 2, count - 1) * stats.sem(samples, axis=1)
    return {
        "law": law[0],
        "R": str(count),
        "ours": share(is_covered),
        "Student's": share(abs(samples.mean(axis=1)) <= half),
        "marked": share(is_marked),
        "ours, not marked": share(is_covered[~is_marked]),
    }


def reject_mean(law: tuple[str, Law], count: int, num_samples: int) -> Row:
    samples = law[1](np.random.default_rng(SEED), (num_samples, count))
    p_values = np.array([statistics.paired_p_value(each) for each in samples])
    return {
        "law of the differences": law[0],
        "R": str(count),
        "ours": share(p_values < LEVEL),
        "Student's": share(stats.ttest_1samp(samples, 0.0, axis=1).pvalue < LEVEL),
    }


def cover_worlds(common: float, count: int, num_samples: int) -> Row:
    """Cover the mean, 0, of scores whose worlds have a share of their variance in common."""
    rng = np.random.default_rng(SEED)
    luck = rng.standard_normal((num_samples, count, 1))
    own = rng.standard_normal((num_samples, count, NUM_ENVIRONMENTS))
    tables = np.sqrt(common) * luck + np.sqrt(1 - common) * own
    mean, naive, quarter = statistics.mean_interval, np.ravel, tables[::4]
    return {
        "variance in common": f"{common:.0%}",
        "R": str(count),
        "mean: ours": share([covers(mean(table.mean(axis=1))) for table in tables]),
        "mean: naive": share([covers(mean(naive(table))) for table in tables]),
        "interquartile mean: ours": share([covers(_middle(table)) for table in quarter]),
        "interquartile mean: naive": share(
            [covers(_middle(naive(table)[:, None])) for table in quarter]
        ),
    }


def _middle(table: FloatArray) -> Interval:
    return statistics.bootstrap_interval(table, statistics.interquartile_mean)


def cover_share(chance: float, count: int, num_samples: int) -> Row:
    samples = np.random.default_rng(SEED).random((num_samples, count)) < chance
    is_covered = [covers(statistics.proportion_interval(each), chance) for each in samples]
    return {"share": f"{chance:g}", "R": str(count), "covered": share(is_covered)}


def reject_any(law: tuple[str, Law], count: int, num_samples: int) -> Row:
    """Compare agents with one reference, whose luck is in all the differences."""
    draws = law[1](np.random.default_rng(SEED), (num_samples // 4, NUM_AGENTS + 1, count))
    p_values = np.array(
        [[statistics.paired_p_value(d) for d in each[1:] - each[0]] for each in draws]
    )
    corrected = np.array([statistics.holm(each) for each in p_values])
    return {
        "law of the regrets": law[0],
        "R": str(count),
        "with Holm's correction": share((corrected < LEVEL).any(axis=1)),
        "without": share((p_values < LEVEL).any(axis=1)),
    }


def covers(interval: Interval, truth: float = 0.0) -> bool:
    return interval.low <= truth <= interval.high


def share(is_true: Sequence[bool] | FloatArray) -> str:
    return f"{np.mean(is_true):.3f}" if len(is_true) else "-"


if __name__ == "__main__":
    sys.exit(main())
