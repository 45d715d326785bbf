"""SMC over time: particles that are never renewed beside particles that are resampled and moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from distances.histories import is_dependent, pulls
from distances.measure import noise_floor, total_variation
from distances.settings import PROBLEMS
from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import name_curves, new_panels
from pages.page import Section, Verdict, graded, markdown_table

from agents import SMCThompson
from agents.oracle import action_probabilities
from bandit_gym.results.styles import COLOURS

NUM_PARTICLES = 1000
BOUND = 0.05
TOLERANCE = 0.004
"""Of the exact probabilities under dependent priors, an error per arm, for ten runs."""

STEPS = (0, 10, 30, 100, 300, 1000, 3000, 10_000)
PROBLEM_NAMES = (
    "Bernoulli, N(0.5, 0.1) cut to [0, 1]",
    "Bernoulli, dependent, dimension 10",
    "Bernoulli, dependent, dimension 50",
    "exponential, N(1, 0.3) cut to [0, 3]",
    "Gaussian, dependent, dimension 50",
    "Poisson, N(3, 0.5) cut to [0, 6]",
)
MOVES, STILL, NEVER = "resampled and moved", "resampled only", "never renewed (paper)"
AGENTS = {
    NEVER: {},
    STILL: {"resampling": "systematic"},
    MOVES: {"resampling": "systematic", "move": "random-walk"},
}
NOISE = "noise"


def reproduce(task: Task) -> Section:
    """Show each agent one history, reward by reward, in many independent runs."""
    horizon, num_runs = task.sizes["horizon"], task.sizes["runs"]
    found = pd.DataFrame(row for name in PROBLEM_NAMES for row in _measure(name, horizon, num_runs))
    return Section(
        title="Particles: collapse, and what prevents it",
        text=f"One history a problem, played by exact Thompson sampling to t = {horizon:,} and "
        f"shown reward by reward to {num_runs} runs of {NUM_PARTICLES:,} particles. The distance "
        "is that of a single run's law, worked out from its particles, from the exact action "
        "probabilities; mean over runs (worst run). *Noise* is the mean distance of as many "
        "independent exact draws.",
        pictures={"particles": _draw(found)},
        caption="How far the law of a run is from the truth over time, of particles that are only "
        "reweighted, resampled, or resampled and moved. Bands go from the best run to the worst.",
        body=[_table(found)],
        verdicts=_verdicts(found),
    )


def _measure(name: str, horizon: int, num_runs: int) -> Iterator[dict[str, Any]]:
    """Yield a row for the noise at each step, then one for each agent at each step."""
    problem, steps = PROBLEMS[name], [step for step in STEPS if step <= horizon]
    history = list(islice(pulls(problem, np.random.default_rng(11), 11), max(steps) + 1))
    tolerance = TOLERANCE * 10 / num_runs if is_dependent(problem) else None
    truths, floors = {}, {}
    for step in steps:
        statistics = history[step].counts, history[step].sums
        truths[step] = action_probabilities(problem, *statistics, tolerance=tolerance)
        floors[step], _ = noise_floor(truths[step], NUM_PARTICLES)
        yield _row(NOISE, step, np.array([floors[step]]), floors[step]) | {"problem": name}
    for label, options in AGENTS.items():
        agent = SMCThompson(problem, num_particles=NUM_PARTICLES, **options)
        agent.reset(num_runs, seed=5)
        for step, pull in enumerate(history):
            if step in truths:
                distances = total_variation(agent.action_probabilities(), truths[step])
                yield _row(label, step, distances, floors[step]) | {"problem": name}
            agent.observe(np.full(num_runs, pull.action), np.full(num_runs, pull.reward))


def _row(label: str, step: int, distances: np.ndarray, floor: float) -> dict[str, Any]:
    mean = distances.mean()
    ends = {"low": distances.min(), "high": distances.max()}
    return {"particles": label, "step": step, "mean": mean, "excess": mean - floor} | ends


def _table(found: pd.DataFrame) -> str:
    return markdown_table([
        {"problem": problem, "particles": label}
        | {f"t = {row.step:,}": _cell(row) for row in rows.itertuples()}
        for (problem, label), rows in found.groupby(["problem", "particles"], sort=False)
    ])  # fmt: skip


def _cell(row: Any) -> str:
    return f"{row.mean:.3f}" if row.particles == NOISE else f"{row.mean:.3f} ({row.high:.3f})"


def _verdicts(found: pd.DataFrame) -> list[Verdict]:
    worst = found.loc[found.groupby("particles")["excess"].idxmax()].set_index("particles")
    where = {
        label: f"{row['excess']:.3f} ({row['problem']}, t = {row['step']:,})"
        for label, row in worst.iterrows()
    }
    moved = found.loc[found["particles"] == MOVES, "mean"].max()
    return [
        Verdict(
            f"resampled and moved, a single run's law stays within {BOUND} over noise at every t",
            graded(worst["excess"][MOVES] <= BOUND),
            f"largest mean distance over noise {where[MOVES]}; without subtracting noise "
            f"{moved:.3f}",
        ),
        Verdict(
            "never renewed, particles collapse",
            graded(worst["excess"][NEVER] > BOUND),
            f"largest mean distance over noise {where[NEVER]}; resampled without moves "
            f"{worst['excess'][STILL]:.3f}",
        ),
    ]


def _draw(found: pd.DataFrame) -> Figure:
    figure, panels = new_panels(PROBLEM_NAMES)
    looks = {label: {"color": c, "label": label} for label, c in zip(AGENTS, COLOURS, strict=False)}
    looks[NOISE] = {"color": "0.4", "label": "as many exact draws", "ls": ":"}
    for axes, problem in zip(panels, PROBLEM_NAMES, strict=True):
        for label, look in looks.items():
            rows = found[(found["problem"] == problem) & (found["particles"] == label)]
            steps = rows["step"] + 1  # so that t = 0 has a place on a logarithmic axis
            axes.plot(steps, rows["mean"], **look)
            axes.fill_between(steps, rows["low"], rows["high"], color=look["color"], alpha=0.15)
        axes.axhline(BOUND, color="0.7", linewidth=0.8)
        axes.set(xscale="log", xlabel="step + 1", ylabel="distance of a run's law", ylim=(0, 1))
        name_curves(axes)
    return figure
