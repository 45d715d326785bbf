"""Does distance matter? Regret lost beside exact Thompson sampling, against the distance from it.

Notation: R replications, H horizons, W environments.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.random import SeedSequence

from bandit_gym.checks.styles import COLOURS
from bandit_gym.experiments.experiment import read_entries
from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.suite import Case
from bandit_gym.fidelity.trial import decide, shares_of
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.results import RunResults
from bandit_gym.results.statistics import mean_interval
from scripts.studies.study import Found, StudyTask, play_agents, verdict

ALL_KINDS = "all"
"""Environments of every kind of prior."""

SAME, COSTS, GAINS, OPEN = "no difference", "costs", "gains", "undecided"


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each agent."""
    return {label: partial(_measure_agent, task, label) for label in task.settings["agents"]}


def _environments(task: StudyTask, label: str) -> dict[str, list[Case]]:
    """Return the cases of each environment of the suite that an agent plays in."""
    lacks = task.settings["lacks"].get(label, [])
    environments: dict[str, list[Case]] = {}
    for case in load_suite().cases:
        if task.settings["only"] in case.problem_name and case.kind not in lacks:
            environments.setdefault(case.problem_name, []).append(case)
    return environments


def _measure_agent(task: StudyTask, label: str) -> dict[str, Any]:
    """Return an agent's distance and regret lost, by kind of prior; and where it failed."""
    settings, environments = task.settings, _environments(task, label)
    entry = {**settings["agents"][label], "label": label}
    again = "scripts.studies.outsiders:Again"
    exact = [{"agent": again, "number": number} for number in range(settings["references"])]
    sizes = {"horizon": task.size("horizon"), "seed": settings["seed"]}
    sizes["replications"] = max(10, task.size("replications"))
    last_horizon = max(settings["horizons"])
    steps = [max(1, round(t * sizes["horizon"] / last_horizon)) for t in settings["horizons"]]
    rows: dict[str, list[tuple[Any, ...]]] = {}
    failed = {}
    envs = [
        {"env": cases[0].problem, "label": environment}
        for environment, cases in environments.items()
    ]
    references, runs = (play_agents(task, envs, agents, **sizes) for agents in (exact, [entry]))
    for environment, cases in environments.items():
        run = runs[environment][label]
        if not run.is_usable:
            failed[environment] = next(iter(run.failures.values()), "not played").splitlines()[-1]
            continue
        distances = [_measure_distance(task, entry, case) for case in cases]
        reference = np.mean(
            [_interpolate_regrets(steps, each) for each in references[environment].values()], axis=0
        )
        lost = (_interpolate_regrets(steps, run) - reference) / reference.mean(axis=0)
        for kind in (cases[0].kind, ALL_KINDS):
            rows.setdefault(kind, []).append((*np.mean(distances, axis=0), lost))
    pooled = [pool_environments(task, kind, found) for kind, found in rows.items()]
    return {"agent": label, "pooled": pooled, "failed": failed}


def _interpolate_regrets(steps: list[int], run: RunResults) -> np.ndarray:
    """Return the (R, H) regrets at some steps, on a line from one recorded step to the next."""
    curves = run.curves("cumulative_regret")
    return np.array([[np.interp(t, run.steps, curve) for t in steps] for curve in curves])


def _measure_distance(task: StudyTask, entry: Mapping[str, Any], case: Case) -> tuple[float, float]:
    """Return the TV over noise, and what the exact distribution's favourite gets too much.

    Of agents that keep what they drew (SMC) the distance is that of a single run's distribution.
    """
    (read,) = read_entries("agents", "agent", [dict(entry)])
    seed = SeedSequence(task.settings["seed"], spawn_key=(zlib.crc32(case.name.encode()),))
    made = decide(read, case, max(1000, task.size("decisions")), seed)
    if made is None:
        raise ValueError(f"{entry['label']} must be given {case.name}, got no warm_start.")
    shares, leader = shares_of(made.arms, case.probabilities), case.probabilities.argmax()
    if made.num_kept:
        excess = made.run_tv.mean() - noise_floor(case.probabilities, made.num_kept)[0]
    else:
        excess = (
            total_variation(shares, case.probabilities)
            - noise_floor(case.probabilities, len(made.arms))[0]
        )
    return float(excess), float(shares[leader] - case.probabilities[leader])


def pool_environments(task: StudyTask, kind: str, found: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Average over environments in each replication: they share their seeds, and luck.

    Intervals hold together for all agents, kinds of priors and horizons (Bonferroni).
    """
    shares = np.mean([lost for *_, lost in found], axis=0)
    kinds = len({case.kind for case in load_suite().cases}) + 1
    number = len(task.settings["agents"]) * kinds * shares.shape[1]
    confidence = 1 - task.settings["level"] / number
    excess, lean = np.mean([each[:2] for each in found], axis=0)
    lost = [list(mean_interval(each, confidence=confidence)) for each in shares.T]
    details = {"kind": kind, "worlds": len(found), "replications": len(shares)}
    return details | {"excess": float(excess), "lean": float(lean), "lost": lost}


def write_tables(found: Found) -> dict[str, str]:
    """Return the verdicts and the table of the page."""
    rows, settings = _rows(found), found["settings"]
    failed = [
        f"- {part['agent']} in {environment}: {words}"
        for part in found["numbers"].values()
        for environment, words in part["failed"].items()
    ]
    return {
        "verdicts": markdown_rows(list(judge_claims(rows[rows["kind"] != ALL_KINDS], settings))),
        "lost": markdown_rows(
            [
                _distance_cells(row, settings)
                for _, row in rows[rows["kind"] == ALL_KINDS].iterrows()
            ]
        ),
        "failed": "\n".join(failed) or "Nothing.",
    }


def _rows(found: Found) -> pd.DataFrame:
    """Return a row per agent and kind of prior, the nearest first."""
    parts = found["numbers"].values()
    rows = pd.DataFrame(
        [{"agent": part["agent"], **row} for part in parts for row in part["pooled"]]
    )
    return rows.sort_values("excess", kind="stable", ignore_index=True)


def judge_interval(interval: list[float], margin: float) -> str:
    """Say what an interval of the share of regret lost comes to."""
    _, low, high = interval
    if max(abs(low), abs(high)) <= margin:
        return SAME
    return COSTS if low > 0 else GAINS if high < 0 else OPEN


def judge_claims(rows: pd.DataFrame, settings: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    tolerance, last = settings["near"], max(settings["horizons"])
    words = rows["lost"].map(lambda lost: judge_interval(lost[-1], settings["margin"]))
    is_distant = rows["excess"] > tolerance
    too_little, too_much = (
        is_distant & (rows["lean"] < -tolerance),
        is_distant & (rows["lean"] > tolerance),
    )
    claims = {
        f"Within {tolerance} of the exact distribution there is no difference in regret": (
            ~is_distant,
            SAME,
        ),
        "Farther away, too little for the favourite costs": (too_little, COSTS),
        "Farther away, too much for the favourite gains": (too_much, GAINS),
    }
    for claim, (chosen, expected) in claims.items():
        counts = words[chosen].value_counts()
        num_for = int(counts.get(expected, 0))
        against = int(counts.drop([expected, OPEN], errors="ignore").sum())
        is_shown = not against and num_for >= settings["most"] * max(1, chosen.sum())
        details = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield {
            "claim": f"{claim} (in {last:,} steps)",
            "verdict": verdict(is_shown, against > 0),
            "evidence": f"of {chosen.sum()} agents and kinds of priors: {details or 'none'}",
        }


def _distance_cells(row: pd.Series, settings: Mapping[str, Any]) -> dict[str, str]:
    cells = {"agent": row["agent"], "environments": f"{row['worlds']}"}
    cells |= {"distance": f"{row['excess']:.3f}", "favourite's excess": f"{row['lean']:+.3f}"}
    for horizon, lost in zip(settings["horizons"], row["lost"], strict=True):
        share, low, high = lost
        word = judge_interval(lost, settings["margin"])
        cells[f"lost at {horizon:,}"] = f"{share:+.0%} [{low:+.0%}, {high:+.0%}] {word}"
    return cells


def draw(found: Found) -> dict[str, Figure]:
    """Draw what is lost against distance at the last horizon."""
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    axes, rows = figure.subplots(), _rows(found)
    rows, named = rows[rows["kind"] == ALL_KINDS].set_index("agent"), found["settings"]["named"]
    for agent, row in rows.loc[rows.index.isin(list(named))].iterrows():
        (share, low, high), side = row["lost"][-1], named[agent]
        colour = COLOURS[0] if row["lean"] > 0 else COLOURS[1]
        point, ends = (row["excess"], share), [[share - low], [high - share]]
        axes.errorbar(*point, ends, fmt="o", color=colour, capsize=2)
        annotation: dict[str, Any] = {
            "xytext": (7 * side, 4),
            "ha": "left" if side > 0 else "right",
        }
        axes.annotate(agent, point, textcoords="offset points", color=colour, **annotation)
    axes.axhline(0, color="#888888", lw=0.8, ls=":")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("distance from exact Thompson sampling (TV over noise)")
    axes.set_ylabel("regret lost, of exact Thompson sampling's")
    axes.margins(x=0.12)
    return {"distance": figure}
