"""Tables of estimates: what the stored replications of an experiment say, with intervals.

Bayesian pseudo-regret is the sum over steps of max(means) - means[action], averaged over instances
drawn from the prior (over the noise alone where the means are fixed). Realised regret has the
reward in place of the pulled arm's mean; its expectation is the same and its variance is larger.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.blocks import COLUMNS, DOUBTED
from bandit_gym.experiments.entries import Entry
from bandit_gym.results import statistics
from bandit_gym.results.statistics import Interval
from bandit_gym.results.stored import RunResults, line_up, paired_differences

if TYPE_CHECKING:
    from bandit_gym.results.results import Results

QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


def summarise(results: Results) -> pd.DataFrame:
    """Tabulate the state at the horizon, one row per run that can be reported.

    Columns: `env`, `agent`, `replications`; `cumulative_regret`, `realised_regret`, `last_switch`,
    `simple_regret`, `best_arm_found` and `samples_per_decision` as estimates of means, each
    followed by the ends `_low` and `_high` of its 95 % interval, NaN below 10 replications, and but
    for shares by `_is_doubtful`: whether a heavy tail may make it too short; `flagged`, the share
    of decisions whose agent called its posterior unreliable, and `doubts_...`, where it tells them,
    those of each `Doubt`; quantiles of the pseudo-regret; `difference`, the mean pseudo-regret less
    that of the environment's first agent, paired by replication, with its interval, its `p_holm`,
    corrected for all comparisons of the table, and what follows from that: the `verdict` "better",
    "worse" or "undecided".

    The table depends on the results alone, to the last bit.
    """
    rows: list[dict[str, Any]] = []
    for environment in results.experiment.environments:
        reference = results.reference(environment)
        rows += [_describe(found, reference) for found in results.usable(environment)]
    table = pd.DataFrame(rows)
    if rows:
        table["p_holm"] = statistics.holm(table.pop("p_value"))
        table["verdict"] = [_judge(row) for row in table.itertuples()]
    return table


def regret_name(environment: Entry) -> str:
    """Say in words which regret a table or an axis shows."""
    title = COLUMNS["cumulative_regret"].title
    return title if "means" in environment.options else f"Bayesian {title}"


def _describe(found: RunResults, reference: RunResults | None) -> dict[str, Any]:
    regret, differences = found.final("cumulative_regret"), _final_differences(found, reference)
    doubts = {name: _share_of_decisions(found, name) for name in DOUBTED}
    return {
        "env": found.run.environment.label,
        "agent": found.run.agent.label,
        "replications": len(regret),
        **_estimates(found),
        "flagged": _share_of_decisions(found, "is_unreliable"),
        **{name: share for name, share in doubts.items() if not math.isnan(share)},
        **{name: float(np.quantile(regret, q)) for name, q in QUANTILES.items()},
        **_mean("difference", differences),
        "p_value": statistics.paired_p_value(differences),
    }


def _share_of_decisions(found: RunResults, name: str) -> float:
    return float(found.final(name).mean() / found.run.horizon)


def _estimates(found: RunResults) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in (name for name, column in COLUMNS.items() if column.title):
        estimate = _share if COLUMNS[name].unit == "share" else _mean
        row |= estimate(name, found.final(name))
    return row | _mean("samples_per_decision", found.final("num_samples") / found.run.horizon)


def _final_differences(found: RunResults, reference: RunResults | None) -> FloatArray:
    """Return the paired differences at the horizon, one NaN where there is nothing to compare."""
    if reference is None or found is reference:
        return np.array([np.nan])
    _, differences = paired_differences(found, reference, "cumulative_regret")
    return differences[:, -1] if len(differences) else np.array([np.nan])


def _judge(row: Any) -> str:
    """Say what is known of a row's difference; nothing where there is none."""
    if np.isnan(row.difference):
        return ""
    if not row.p_holm < statistics.LEVEL:
        return "undecided"
    return "better" if row.difference < 0 else "worse"


def _mean(name: str, values: FloatArray) -> dict[str, Any]:
    is_doubtful = statistics.is_coverage_doubtful(values)
    return _spread(name, statistics.mean_interval(values)) | {f"{name}_is_doubtful": is_doubtful}


def _share(name: str, values: FloatArray) -> dict[str, Any]:
    return _spread(name, statistics.proportion_interval(values))


def _spread(name: str, interval: Interval) -> dict[str, Any]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


def aggregate(results: Results) -> pd.DataFrame:
    """Tabulate each agent over all environments: interquartile mean of scores and its interval.

    A score is a replication's final pseudo-regret divided by what uniform play loses on average in
    that environment: 0 is perfect, 1 no better than chance. Only replications and agents present in
    every environment count. A replication has the same seed in all environments, so intervals
    resample replications whole; below 10 of them there are none.
    """
    rows = []
    for agent, scores in normalised_scores(results).items():
        interval = statistics.bootstrap_interval(scores, statistics.interquartile_mean)
        rows.append({"agent": agent, "replications": len(scores), **_spread("score_iqm", interval)})
    return pd.DataFrame(rows)


def normalised_scores(results: Results) -> dict[str, FloatArray]:
    """Return for each agent label the (R, E) scores that `aggregate` describes."""
    scores = {}
    for agent in results.experiment.agents:
        runs = [found for found in results.runs if found.run.agent == agent]
        if all(found.is_usable for found in runs):
            table = line_up([(found.replications, _score(found)) for found in runs])
            if len(table):
                scores[agent.label] = table
    return scores


def _score(found: RunResults) -> FloatArray:
    scores: FloatArray = found.final("cumulative_regret") / found.final("uniform_regret").mean()
    return scores
