"""SMC over time: particles that are never renewed beside particles that are resampled and moved."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from distances.measure import noise_floor, total_variation
from distances.settings import PROBLEMS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper import common
from paper.common import Section, Verdict

from agents import ExactThompson, SMCThompson
from agents.oracle import action_probabilities
from bandit_gym.dynamics import draw_means, pull
from bandit_gym.experiments.execution import Workers
from bandit_gym.results.plots import styles
from bandit_gym.problem import BanditProblem
from beyond.settings import Scale

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


class History(NamedTuple):
    """What one run of exact Thompson sampling did, and the law it should have at some steps."""

    actions: np.ndarray
    rewards: np.ndarray
    truths: dict[int, np.ndarray]


def reproduce(scale: Scale, folder: Path, workers: Workers) -> Section:
    """Show each agent one history, reward by reward, in many independent runs."""
    del workers
    horizon, num_runs = scale.horizon("particles"), scale.size("particles", "runs")
    found = {name: _measure(PROBLEMS[name], horizon, num_runs) for name in PROBLEM_NAMES}
    picture = common.save_png(_draw(found), folder, "particles")
    return Section(
        title="SMC: collapse, and what prevents it",
        choices=f"One history a problem, played by exact Thompson sampling to t = {horizon:,} and "
        f"shown reward by reward to {num_runs} runs of {NUM_PARTICLES:,} particles. The distance "
        "is that of a single run's law, worked out from its particles, from the exact action "
        "probabilities; mean over runs (worst run). *Noise* is the mean distance of as many "
        "independent exact draws.",
        body="\n\n".join([picture, _table(found)]),
        verdicts=_verdicts(found),
    )


def _measure(
    problem: BanditProblem, horizon: int, num_runs: int
) -> dict[str, dict[int, np.ndarray]]:
    """Return (R,) distances of each run's law at each step for each agent; and the noise."""
    history = _play(problem, horizon)
    noise = {
        step: np.array([noise_floor(truth, NUM_PARTICLES)[0]])
        for step, truth in history.truths.items()
    }
    distances = {
        label: _follow(SMCThompson(problem, num_particles=NUM_PARTICLES, **options), history,
                       num_runs)
        for label, options in AGENTS.items()
    }  # fmt: skip
    return {"noise": noise, **distances}


def _play(problem: BanditProblem, horizon: int) -> History:
    rng = np.random.default_rng(11)
    means = draw_means(problem.prior, rng, problem.num_arms)[None]
    agent = ExactThompson(problem)
    agent.reset(1, seed=11)
    tolerance = TOLERANCE if agent.method == "gibbs" else None
    actions, rewards, truths = [], [], {}
    for step in range(horizon + 1):
        if step in STEPS:
            statistics = agent.counts[0], agent.sums[0]
            truths[step] = action_probabilities(problem, *statistics, tolerance=tolerance)
        action = agent.act()
        reward = pull(problem.likelihood, means, action, rng.random(1))
        agent.observe(action, reward)
        actions.append(action[0])
        rewards.append(reward[0])
    return History(np.array(actions), np.array(rewards), truths)


def _follow(agent: SMCThompson, history: History, num_runs: int) -> dict[int, np.ndarray]:
    agent.reset(num_runs, seed=5)
    distances = {}
    for step in range(max(history.truths) + 1):
        if step in history.truths:
            laws = agent.action_probabilities()
            distances[step] = total_variation(laws, history.truths[step])
        reward = np.full(num_runs, history.rewards[step])
        agent.observe(np.full(num_runs, history.actions[step]), reward)
    return distances


Found = dict[str, dict[str, dict[int, np.ndarray]]]


def _table(found: Found) -> str:
    steps = list(next(iter(found.values()))["noise"])
    rows = [
        [name, label, *(_cell(values[step]) for step in steps)]
        for name, agents in found.items()
        for label, values in agents.items()
    ]
    return common.markdown_table(["problem", "particles", *(f"t = {t:,}" for t in steps)], rows)


def _cell(distances: np.ndarray) -> str:
    if len(distances) == 1:
        return f"{distances[0]:.3f}"
    return f"{distances.mean():.3f} ({distances.max():.3f})"


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    worst = {label: _worst(found, label) for label in AGENTS}
    moved, never = worst[MOVES], worst[NEVER]
    return (
        Verdict(
            f"resampled and moved, a single run's law stays within {BOUND} over noise at every t",
            "holds" if moved[0] <= BOUND else "does not hold",
            f"largest mean distance over noise {moved[0]:.3f} ({moved[1]}, t = {moved[2]:,}); "
            f"without subtracting noise {moved[3]:.3f}",
        ),
        Verdict(
            "never renewed, particles collapse",
            "holds" if never[0] > BOUND else "does not hold",
            f"largest mean distance over noise {never[0]:.3f} ({never[1]}, t = {never[2]:,}); "
            f"resampled without moves {worst[STILL][0]:.3f}",
        ),
    )


def _worst(found: Found, label: str) -> tuple[float, str, int, float]:
    """Return the largest mean distance over noise, where it is, and the largest mean distance."""
    rows = [
        (float(values.mean() - agents["noise"][step][0]), name, step, float(values.mean()))
        for name, agents in found.items()
        for step, values in agents[label].items()
    ]
    return *max(rows)[:3], max(row[3] for row in rows)


def _draw(found: Found) -> Figure:
    figure, panels = common.new_panels(list(found))
    for axes, agents in zip(panels, found.values(), strict=True):
        for label, style in zip(AGENTS, styles(), strict=False):
            _draw_distances(axes, agents[label], label, style["color"])
        noise = agents["noise"]
        axes.plot(_shifted(noise), [value[0] for value in noise.values()], ":", color="0.4",
                  label="as many exact draws")  # fmt: skip
        axes.axhline(BOUND, color="0.7", linewidth=0.8)
        axes.set(xscale="log", xlabel="step + 1", ylabel="distance of a run's law", ylim=(0, 1))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _draw_distances(axes: Axes, distances: dict[int, np.ndarray], label: str, color: str) -> None:
    values = np.array(list(distances.values()))
    steps = _shifted(distances)
    axes.plot(steps, values.mean(axis=1), color=color, label=label)
    axes.fill_between(steps, values.min(axis=1), values.max(axis=1), color=color, alpha=0.15)


def _shifted(values: dict[int, np.ndarray]) -> np.ndarray:
    return np.array(list(values)) + 1  # so that t = 0 has a place on a logarithmic axis
