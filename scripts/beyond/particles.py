"""SMC over time: particles that are never renewed beside particles that are resampled and moved."""

from __future__ import annotations

from itertools import islice

import numpy as np
from distances.histories import Pull, is_dependent, pulls
from distances.measure import noise_floor, total_variation
from distances.settings import PROBLEMS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import add_legend, new_panels
from pages.page import Section, Verdict, graded, markdown_table

from agents import SMCThompson
from agents.oracle import action_probabilities
from bandit_gym.problem import BanditProblem
from bandit_gym.results.plots import COLOURS

NUM_PARTICLES = 1000
BOUND = 0.05
TOLERANCE = 0.004
"""Of the exact probabilities under dependent priors, an error per arm."""

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


Distances = dict[int, np.ndarray]
Found = dict[str, dict[str, Distances]]
"""Problem -> agent, or "noise" -> step -> (R,) distances, one a run."""


def reproduce(task: Task) -> Section:
    """Show each agent one history, reward by reward, in many independent runs."""
    horizon, num_runs = task.sizes["horizon"], task.sizes["runs"]
    found = {name: _measure(PROBLEMS[name], horizon, num_runs) for name in PROBLEM_NAMES}
    rows = [
        {"problem": name, "particles": label}
        | {f"t = {step:,}": _cell(distances) for step, distances in steps.items()}
        for name, agents in found.items()
        for label, steps in agents.items()
    ]
    return Section(
        title="Particles: collapse, and what prevents it",
        text=f"One history a problem, played by exact Thompson sampling to t = {horizon:,} and "
        f"shown reward by reward to {num_runs} runs of {NUM_PARTICLES:,} particles. The distance "
        "is that of a single run's law, worked out from its particles, from the exact action "
        "probabilities; mean over runs (worst run). *Noise* is the mean distance of as many "
        "independent exact draws.",
        pictures={"particles": _draw(found)},
        body=[markdown_table(rows)],
        verdicts=_verdicts(found),
    )


def _measure(problem: BanditProblem, horizon: int, num_runs: int) -> dict[str, Distances]:
    """Return (R,) distances of each run's law at each step for each agent; and the noise."""
    history = list(islice(pulls(problem, np.random.default_rng(11), 11), horizon + 1))
    tolerance = TOLERANCE if is_dependent(problem) else None
    truths = {
        step: action_probabilities(
            problem, history[step].counts, history[step].sums, tolerance=tolerance
        )
        for step in STEPS
        if step <= horizon
    }
    found = {step: np.array([noise_floor(law, NUM_PARTICLES)[0]]) for step, law in truths.items()}
    distances = {"noise": found}
    for label, options in AGENTS.items():
        agent = SMCThompson(problem, num_particles=NUM_PARTICLES, **options)
        agent.reset(num_runs, seed=5)
        distances[label] = _follow(agent, history, truths)
    return distances


def _follow(agent: SMCThompson, history: list[Pull], truths: dict[int, np.ndarray]) -> Distances:
    distances, num_runs = {}, len(agent.counts)
    for step in range(max(truths) + 1):
        if step in truths:
            distances[step] = total_variation(agent.action_probabilities(), truths[step])
        actions = np.full(num_runs, history[step].action)
        agent.observe(actions, np.full(num_runs, history[step].reward))
    return distances


def _cell(distances: np.ndarray) -> str:
    if len(distances) == 1:
        return f"{distances[0]:.3f}"
    return f"{distances.mean():.3f} ({distances.max():.3f})"


def _verdicts(found: Found) -> list[Verdict]:
    worst = {label: _worst(found, label) for label in AGENTS}
    moved, never = worst[MOVES], worst[NEVER]
    return [
        Verdict(
            f"resampled and moved, a single run's law stays within {BOUND} over noise at every t",
            graded(moved[0] <= BOUND),
            f"largest mean distance over noise {moved[0]:.3f} ({moved[1]}, t = {moved[2]:,}); "
            f"without subtracting noise {moved[3]:.3f}",
        ),
        Verdict(
            "never renewed, particles collapse",
            graded(never[0] > BOUND),
            f"largest mean distance over noise {never[0]:.3f} ({never[1]}, t = {never[2]:,}); "
            f"resampled without moves {worst[STILL][0]:.3f}",
        ),
    ]


def _worst(found: Found, label: str) -> tuple[float, str, int, float]:
    """Return the largest mean distance over noise, where it is, and the largest mean distance."""
    rows = [
        (float(values.mean() - agents["noise"][step][0]), name, step, float(values.mean()))
        for name, agents in found.items()
        for step, values in agents[label].items()
    ]
    return *max(rows)[:3], max(row[3] for row in rows)


def _draw(found: Found) -> Figure:
    figure, panels = new_panels(list(found))
    for axes, agents in zip(panels, found.values(), strict=True):
        for label, colour in zip(AGENTS, COLOURS, strict=False):
            _draw_distances(axes, agents[label], color=colour, label=label)
        _draw_distances(axes, agents["noise"], ls=":", color="0.4", label="as many exact draws")
        axes.axhline(BOUND, color="0.7", linewidth=0.8)
        axes.set(xscale="log", xlabel="step + 1", ylabel="distance of a run's law", ylim=(0, 1))
    add_legend(figure, 4)
    return figure


def _draw_distances(axes: Axes, distances: Distances, **style: str) -> None:
    values = np.array(list(distances.values()))
    steps = np.array(list(distances)) + 1  # so that t = 0 has a place on a logarithmic axis
    axes.plot(steps, values.mean(axis=1), **style)
    low, high = values.min(axis=1), values.max(axis=1)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.15)
