"""How much is avoidable? Regret of rules beside the least that is possible, exact or bracketed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from agents import make_agent
from agents.bayes_optimal import expected_regret, optimal_bracket, optimal_regret
from agents.bayes_optimal.brackets import played_regrets
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.statistics import mean_interval
from bandit_gym.styles import GREY, MAX_WIDTH, agent_styles
from scripts.studies.study import (
    Found,
    StudyTask,
    fold_rows,
    parts_of,
    play_agents,
    write_interval,
)

ARMS = (2, 3, 5)
UNIFORM = {"name": "beta", "alpha": 1.0, "beta": 1.0}


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each prior, each agent, and each number of arms in races."""
    settings = task.settings
    tables = {f"prior: {name}": partial(ratios, task, name) for name in settings["priors"]}
    costs = {f"agent: {label}": partial(_cost, task, label) for label in settings["agents"]}
    few = partial(_played, task, 2, task.size("horizon_short"), task.size("players"))
    many = partial(_played, task, 10, task.size("horizon_many"), task.size("replications"))
    return tables | costs | {"played: 2": few, "played: 10": many}


def make_problem(prior: Mapping[str, Any], num_arms: int) -> BanditProblem:
    return BanditProblem(Bernoulli(), prior_from_dict(dict(prior)), num_arms)


def ratios(task: StudyTask, name: str) -> list[dict[str, Any]]:
    """Return the rules' regrets over the least, of three horizons for each number of arms."""
    rows = []
    for num_arms in ARMS:
        environment = make_problem(task.settings["priors"][name], num_arms)
        last_horizon = task.size(f"horizon_{num_arms}")
        curves = {
            label: expected_regret(environment, rule, last_horizon)
            for label, rule in task.settings["rules"].items()
        }
        for horizon in sorted({max(1, last_horizon // 5), max(1, last_horizon // 2), last_horizon}):
            optimum = optimal_regret(environment, horizon)
            ratios = {label: float(each[horizon - 1] / optimum) for label, each in curves.items()}
            row = {"prior": name, "arms": num_arms, "horizon": horizon}
            rows.append(row | {"least": float(optimum), "ratios": ratios})
    return rows


def _cost(task: StudyTask, label: str) -> dict[str, Any]:
    """Return an agent's regret over the least with two uniform arms, and what a decision costs."""
    environment, horizon = make_problem(UNIFORM, 2), task.size("horizon_costs")
    options = dict(task.settings["agents"][label])
    name = options.pop("agent")
    if "horizon" in options:
        options["horizon"] = horizon
    agent = make_agent(name, environment, **options)
    regret = expected_regret(environment, agent, horizon)[-1]
    seconds = []
    for _ in range(1 + task.settings["rounds"]):
        begin = process_time()
        played_regrets(agent, horizon, task.settings["lanes"], seed=task.settings["seed"])
        seconds.append(process_time() - begin)
    return {
        "rule": label,
        "ratio": float(regret / optimal_regret(environment, horizon)),
        "microseconds": 1e6 * min(seconds[1:]) / (task.settings["lanes"] * horizon),
    }


def _played(task: StudyTask, num_arms: int, horizon: int, replications: int) -> dict[str, Any]:
    """Return regrets of exact Thompson sampling and the paper's race, and the least there is."""
    environment = make_problem(UNIFORM, num_arms)
    env = {"env": "BernoulliBandit-v0", "num_arms": num_arms, "label": "uniform arms"}
    agents = [{"agent": "exact", "label": "exact"}, {"agent": "racing_paper", "label": "racing"}]
    sizes = {"horizon": horizon, "replications": replications}
    runs = play_agents(task, [env], agents, seed=task.settings["seed"], **sizes)["uniform arms"]
    exact, racing = (runs[label].final("cumulative_regret") for label in ("exact", "racing"))
    if num_arms == 2:
        bounds = [optimal_regret(environment, horizon)] * 2
    else:
        found = optimal_bracket(environment, horizon, num_samples=task.size("scenarios"))
        bounds = [found.best - found.upper, found.best - found.lower]
    return {
        "world": f"{num_arms} arms, T = {horizon:,}",
        "least": [float(each) for each in bounds],
        "exact": list(mean_interval(exact)),
        "racing": list(mean_interval(racing)),
        "gain": list(mean_interval(exact - racing)),
    }


def write_tables(found: Found) -> dict[str, str]:
    """Return the three tables of the page."""
    rows = [row for part in parts_of(found, "prior").values() for row in part]
    longest = {(row["prior"], row["arms"]): row for row in rows}  # the last horizon is the longest
    costs = sorted(parts_of(found, "agent").values(), key=lambda row: row["ratio"])
    return {
        "ratios": markdown_rows([_ratio_cells(row) for row in longest.values()]),
        "costs": fold_rows([_cost_cells(row) for row in costs]),
        "played": markdown_rows([_played_cells(row) for row in parts_of(found, "played").values()]),
    }


def _cost_cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = {"rule": row["rule"], "times the least": f"{row['ratio']:.3f}"}
    return cells | {"µs": f"{row['microseconds']:.2f}"}


def _ratio_cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = {"prior": row["prior"], "K": str(row["arms"]), "T": str(row["horizon"])}
    cells |= {"least": f"{row['least']:.2f}"}
    cells |= {label: f"{ratio:.2f}" for label, ratio in row["ratios"].items()}
    return cells | {"avoidable": f"{max(0.0, 1 - 1 / row['ratios']['Thompson']):.0%}"}


def _played_cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Write a row; of a bracket, what follows from either end, and from those of the gain."""
    played, (_, low, high), optimum = row["exact"][0], row["gain"], row["least"]
    shares = [low / (played - optimum[0]), high / (played - optimum[-1])]
    return {
        "environment": row["world"],
        "least": _write_range(optimum, "{:.2f}"),
        "Thompson": f"{played:.2f}",
        "times the least": _write_range([played / each for each in optimum[::-1]], "{:.2f}"),
        "paper's race": f"{row['racing'][0]:.2f}",
        "its gain": write_interval(row["gain"], 2),
        "of the avoidable": _write_range(shares, "{:.0%}"),
    }


def _write_range(ends: list[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(end) for end in ends))


def draw(found: Found) -> dict[str, Figure]:
    """Draw regret over the least against the cost of a decision."""
    figure = Figure(figsize=(MAX_WIDTH, 5.0), layout="constrained")
    axes, rows = figure.subplots(), list(parts_of(found, "agent").values())
    styles = agent_styles([(row["rule"],) for row in rows])
    for row, style in zip(rows, styles, strict=True):
        point = row["microseconds"], row["ratio"]
        axes.plot(*point, style.marker, color=style.colour, markersize=7, label=row["rule"])
    axes.axhline(1.0, color=GREY, linewidth=1, zorder=0)
    axes.set(xscale="log", yscale="log", yticks=(1, 2, 5), ylim=(0.9, 10.0))
    axes.set(xlabel="microseconds per decision", ylabel="regret, times the least")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    figure.legend(loc="outside lower center", ncols=3, columnspacing=1.0, handletextpad=0.2)
    return {"optimal": figure}
