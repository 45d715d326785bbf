"""Does distance matter? Regret lost beside exact Thompson sampling, against the distance from it.

Notation: R replications, N lanes, K arms, D draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.random import Generator, SeedSequence

from agents import RacingThompson
from bandit_gym.experiments.entries import Entry, read_entries
from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.suite import Case
from bandit_gym.fidelity.trial import decide_in_lanes, make_suite_agent, shares_of
from bandit_gym.results.data import RunResults
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.statistics import Interval, mean_interval
from bandit_gym.styles import GREY, MAX_WIDTH, LineStyle, agent_styles, line_style
from scripts.studies.study import Found, StudyTask, parts_of, play_agents, verdict, write_percentage

NEAR, LESS, MORE = "within 0.02", "too little for the favourite", "too much for the favourite"
OTHER = "farther, but right for the favourite"
SAME, COSTS, GAINS, OPEN = "no difference", "costs", "gains", "undecided"

PLAYERS = "agents", "bent", "rules"

DRAWS_AT_ONCE = 4000

Row = Mapping[str, Any]
"""Of an agent in an environment: its distance, the favourite's excess and (R,) shares lost."""


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each agent, and for each environment with features."""
    labels = [label for group in PLAYERS for label in task.settings[group]]
    found = {f"agent: {label}": partial(_measure_agent, task, label) for label in labels}
    titles = task.settings["environments"]
    return found | {
        f"features: {title}": partial(_measure_on_features, task, title) for title in titles
    }


# -- Without features ---------------------------------------------------------------------------


def _measure_agent(task: StudyTask, label: str) -> list[Row]:
    """Return an agent's row in each environment."""
    settings, skipped = task.settings, task.settings["lacks"].get(label, [])
    (details,) = (settings[group][label] for group in PLAYERS if label in settings[group])
    (entry,) = read_entries("agents", "agent", [details | {"label": label}])
    again = "scripts.studies.outsiders:Again"
    exact = [{"agent": again, "number": number} for number in range(settings["references"])]
    cases = [case for case in load_suite().only(settings["only"]).cases if case.kind not in skipped]
    problems = {case.problem_name: case.problem for case in cases}
    envs = [{"env": problem, "label": name} for name, problem in problems.items()]
    references, runs = (
        _play_environments(task, "replications", envs, each) for each in (exact, [entry])
    )
    rows: list[Row] = []
    for name in problems:
        distances = [_measure_distance(task, entry, c) for c in cases if c.problem_name == name]
        distance, lean = np.mean(distances, axis=0).tolist()
        lost = _find_lost_shares(runs[name][label], references[name].values()).round(4).tolist()
        rows.append({"environment": name, "distance": distance, "lean": lean, "lost": lost})
    return rows


def _play_environments(
    task: StudyTask, size: str, environments: Sequence[Any], agents: Sequence[Any]
) -> dict[str, dict[str, RunResults]]:
    number = task.size(size)
    options = {"horizon": task.size("horizon"), "seed": task.settings["seed"]}
    options["block_size"] = task.settings["block_sizes"][size]
    return play_agents(task, environments, agents, replications=number, **options)


def _find_lost_shares(run: RunResults, references: Iterable[RunResults]) -> np.ndarray:
    """Return (R,) values with the mean and the error of a ratio of mean regrets, less 1.

    References:
        Cochran (1977), "Sampling techniques", section 6.4.
    """
    reference = np.mean([each.final("cumulative_regret") for each in references], axis=0)
    own = run.final("cumulative_regret")
    ratio = own.mean() / reference.mean()
    return np.asarray(ratio - 1 + (own - ratio * reference) / reference.mean())


def _measure_distance(task: StudyTask, entry: Entry, case: Case) -> tuple[float, float]:
    """Return the TV over noise, and what the exact distribution's favourite gets too much.

    Of agents that keep what they drew (SMC) the distance is that of a single run's distribution.
    """
    seed = SeedSequence(task.settings["seed"], spawn_key=(zlib.crc32(case.name.encode()),))
    num_decisions = max(1000, task.size("decisions"))
    agent = make_suite_agent(entry, case.problem, num_decisions)
    made = decide_in_lanes(agent, case, num_decisions, seed)
    shares, leader = shares_of(made.arms, case.probabilities), case.probabilities.argmax()
    distance, num_drawn = total_variation(shares, case.probabilities), len(made.arms)
    if made.num_kept:
        distance, num_drawn = made.lane_distances.mean(), made.num_kept
    excess = distance - noise_floor(case.probabilities, num_drawn)[0]
    return float(excess), float(shares[leader] - case.probabilities[leader])


def classify(row: Row, near: float) -> str:
    """Return the class of an agent in an environment, by distance and the favourite's excess."""
    if row["distance"] <= near:
        return NEAR
    return LESS if row["lean"] < -near else MORE if row["lean"] > near else OTHER


def average(rows: Sequence[Row]) -> Row:
    """Return the means over rows; of regret in each replication, as they share seeds and luck."""
    return {name: np.mean([r[name] for r in rows], axis=0) for name in ("distance", "lean", "lost")}


# -- With features ------------------------------------------------------------------------------


def _measure_on_features(task: StudyTask, title: str) -> dict[str, Any]:
    """Return each agent's distances along a run, favourite's excesses, and regret lost."""
    settings, environment = task.settings, task.settings["environments"][title]
    races = {f"race {n}": {"agent": "racing", "effective_samples": 12 * n} for n in (1, 2)}
    references, entries = (
        read_entries("agents", "agent", each) for each in (races, settings["on_features"])
    )
    envs, agents = [environment | {"label": title}], [*references, *entries]
    runs = _play_environments(task, "replications_features", envs, agents)[title]
    found = _measure_along_runs(task, environment, entries)
    for label, row in found.items():
        lost = _find_lost_shares(runs[label], [runs[race] for race in races])
        row["lost"] = list(mean_interval(lost))
    return found


def _measure_along_runs(
    task: StudyTask, environment: Mapping[str, Any], entries: Sequence[Entry]
) -> dict[str, Any]:
    """Return what each agent's probabilities are off by, given the data of a race's runs."""
    settings, horizon, num_lanes = task.settings, task.size("horizon"), task.size("lanes")
    options = {name: value for name, value in environment.items() if name != "env"}
    env = gym.make_vec(environment["env"], num_envs=num_lanes, **options)
    problem: Any = env.unwrapped.problem  # type: ignore[attr-defined]
    race, seed = RacingThompson(problem), SeedSequence(settings["seed"])
    others = [make_suite_agent(entry, problem, horizon) for entry in entries]
    rng = np.random.default_rng(seed.spawn(1)[0])
    observation, _ = env.reset(seed=settings["seed"])
    for agent in (race, *others):
        agent.reset(num_envs=num_lanes, seed=seed.spawn(1)[0])
    found: dict[str, Any] = {entry.label: {"distances": [], "leans": []} for entry in entries}
    steps = [max(1, round(step * horizon / max(settings["steps"]))) for step in settings["steps"]]
    for step in range(1, horizon + 1):
        actions, *_ = [agent.act(observation) for agent in (race, *others)]
        if step in steps:
            truth, again, *shares = (
                find_shares(agent, observation, rng, task.size("draws"))
                for agent in (race, race, *others)
            )
            noise, leaders = total_variation(truth, again).mean(), truth.argmax(axis=1)[:, None]
            for row, each in zip(found.values(), shares, strict=True):
                excess = np.take_along_axis(each - again, leaders, axis=1)
                row["distances"].append(float(total_variation(each, truth).mean() - noise))
                row["leans"].append(float(excess.mean()))
        observation, rewards, *_ = env.step(actions)
        for agent in (race, *others):
            agent.observe(actions, rewards)
    return found


def find_shares(agent: Any, features: np.ndarray, rng: Generator, num_draws: int) -> np.ndarray:
    """Return (N, K) probabilities of arms: those of an ensemble, or frequencies in D draws."""
    if not hasattr(agent, "_posterior"):
        return np.asarray(agent.action_probabilities(features))
    shares = np.zeros(features.shape[:2])
    for _ in range(num_rounds := max(1, num_draws // DRAWS_AT_ONCE)):
        draws = agent._posterior.sample_many(rng, DRAWS_AT_ONCE)
        best = np.einsum("nkd,snd->nsk", features, draws).argmax(axis=2)
        shares += [np.bincount(arms, minlength=features.shape[1]) for arms in best]
    return shares / (num_rounds * DRAWS_AT_ONCE)


# -- The page -----------------------------------------------------------------------------------


def write_tables(found: Found) -> dict[str, str]:
    """Return the verdicts and the tables of the page."""
    near, steps = found["settings"]["near"], found["settings"]["steps"]
    on_features = [
        _feature_cells(title, label, row, steps)
        for title, rows in parts_of(found, "features").items()
        for label, row in rows.items()
    ]
    agents = sorted(
        parts_of(found, "agent").items(), key=lambda part: np.mean(average(part[1])["lost"])
    )
    return {
        "claims": markdown_rows(judge_claims(found)),
        "agents": markdown_rows([_agent_cells(label, rows, near) for label, rows in agents]),
        "features": markdown_rows(on_features),
    }


def find_claims(found: Found) -> Iterator[tuple[str, Sequence[Row], Interval]]:
    """Yield each claim, the rows that it is about, and the interval of the share of regret lost.

    The intervals hold together (Bonferroni). A claim about no row is left out.
    """
    settings, agents = found["settings"], parts_of(found, "agent")
    confidence = 1 - settings["level"] / (settings["looks"] * len(settings["claims"]))
    for claim in settings["claims"]:
        labels = [claim] if claim in settings["bent"] else settings["agents"]
        pairs = [(label, row) for label in labels for row in agents.get(label, [])]
        rows = [row for label, row in pairs if claim in (label, classify(row, settings["near"]))]
        if rows:
            yield claim, rows, mean_interval(average(rows)["lost"], confidence=confidence)


def judge_interval(interval: Iterable[float], margin: float) -> str:
    """Say what an interval of the share of regret lost comes to."""
    _, low, high = interval
    if max(abs(low), abs(high)) <= margin:
        return SAME
    return COSTS if low > 0 else GAINS if high < 0 else OPEN


def judge_claims(found: Found) -> list[dict[str, str]]:
    """Return a row for each claim: it holds or fails as its one interval says."""
    cells, settings = [], found["settings"]
    for claim, rows, interval in find_claims(found):
        expected, word = settings["claims"][claim], judge_interval(interval, settings["margin"])
        judged = {
            "claim": f"{claim}: {expected}",
            "verdict": verdict(word == expected, word != OPEN),
            "lost": write_percentage(interval),
            "favourite's excess": f"{average(rows)['lean']:+.3f}",
            "pairs": str(len(rows)),
        }
        cells.append(judged)
    return cells


def _agent_cells(label: str, rows: Sequence[Row], near: float) -> dict[str, str]:
    mean, classes = average(rows), [classify(row, near) for row in rows]
    cells = {"agent": label, "distance": f"{mean['distance']:.3f}"}
    cells |= {"favourite's excess": f"{mean['lean']:+.3f}"}
    for title, group in ((NEAR, NEAR), ("too little", LESS), ("too much", MORE)):
        cells[title] = str(classes.count(group))
    return cells | {"lost": write_percentage(mean_interval(mean["lost"]))}


def _feature_cells(title: str, label: str, row: Row, steps: list[int]) -> dict[str, str]:
    cells = {"prior, contexts": title, "agent": label}
    for step, distance in zip(steps, row["distances"], strict=True):
        cells[f"at {step:,}"] = f"{distance:.3f}"
    cells["favourite's excess"] = f"{np.mean(row['leans']):+.3f}"
    return cells | {"lost": write_percentage(row["lost"])}


def draw(found: Found) -> dict[str, Figure]:
    """Draw what is lost against the favourite's excess, without and with features."""
    figure = Figure(figsize=(MAX_WIDTH, 7.6), layout="constrained")
    plain, contextual = figure.subplots(2)
    for number, (claim, rows, interval) in enumerate(find_claims(found)):
        style = line_style(number)
        _draw_point(plain, average(rows)["lean"], interval, style, claim)
    for number, rows in enumerate(parts_of(found, "features").values()):
        styles = agent_styles([(label,) for label in rows])
        for style, (label, row) in zip(styles, rows.items(), strict=True):
            lean, name = np.mean(row["leans"]), "" if number else label
            _draw_point(contextual, lean, row["lost"], style, name)
    for axes, title in ((plain, "without features"), (contextual, "with features")):
        axes.axhline(0, color=GREY, lw=0.8, ls=":")
        axes.axvline(0, color=GREY, lw=0.8, ls=":")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set(title=title, xlabel="favourite's excess", ylabel="regret lost")
        axes.locator_params(axis="x", nbins=4)
        axes.margins(x=0.25)
        axes.legend(loc="center right" if axes is plain else "upper right")
    plain.set_xlim(right=0.2)  # beside the points is room for the legend
    return {"distance": figure}


def _draw_point(
    axes: Axes, lean: Any, interval: Iterable[float], style: LineStyle, label: str
) -> None:
    share, low, high = interval
    ends = [[share - low], [high - share]]
    axes.errorbar(lean, share, ends, fmt=style.marker, color=style.colour, capsize=2, label=label)
