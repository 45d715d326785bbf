"""Does distance matter? Regret lost beside exact Thompson sampling, against the distance from it.

Notation: R replications, N lanes, K arms, d features, S steps, D draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.random import Generator, SeedSequence

from agents import RacingThompson
from bandit_gym.checks.styles import COLOURS
from bandit_gym.experiments.experiment import read_entries
from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.suite import Case
from bandit_gym.fidelity.trial import decide, make_suite_agent, shares_of
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.results import RunResults
from bandit_gym.results.statistics import Interval, mean_interval
from scripts.studies.study import Found, StudyTask, parts_of, play_agents, verdict

ALL_KINDS = "all"
"""Environments of every kind of prior."""

NEAR, LESS, MORE = "within 0.02", "too little for the favourite", "too much for the favourite"
OTHER = "farther, but right for the favourite"
SAME, COSTS, GAINS, OPEN = "no difference", "costs", "gains", "undecided"

DRAWS_AT_ONCE = 4000


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each agent, and for each environment with features."""
    labels = [*task.settings["agents"], *task.settings["bent"]]
    found = {f"agent: {label}": partial(_measure_agent, task, label) for label in labels}
    return found | {
        f"features: {title}": partial(_measure_environment, task, title)
        for title in task.settings["environments"]
    }


# -- Without features ---------------------------------------------------------------------------


def _measure_agent(task: StudyTask, label: str) -> dict[str, Any]:
    """Return an agent's distance and regret lost, by kind of prior and by class; and failures."""
    settings = task.settings
    entry = (settings["agents"] | settings["bent"])[label] | {"label": label}
    again = "scripts.studies.outsiders:Again"
    exact = [{"agent": again, "number": number} for number in range(settings["references"])]
    environments: dict[str, list[Case]] = {}
    for case in load_suite().only(settings["only"]).cases:
        if case.kind not in settings["lacks"].get(label, []):
            environments.setdefault(case.problem_name, []).append(case)
    envs = [{"env": cases[0].problem, "label": name} for name, cases in environments.items()]
    references, runs = (_play(task, "replications", envs, each) for each in (exact, [entry]))
    groups: dict[str, list[tuple[Any, ...]]] = {}
    failed = {}
    for environment, cases in environments.items():
        run = runs[environment][label]
        if not run.is_usable:
            failed[environment] = next(iter(run.failures.values()), "not played").splitlines()[-1]
            continue
        distance, lean = np.mean([_measure_distance(task, entry, case) for case in cases], axis=0)
        row = distance, lean, _lost(run, references[environment].values())
        for group in (ALL_KINDS, cases[0].kind, classify(distance, lean, settings["near"])):
            groups.setdefault(group, []).append(row)
    return {"groups": {name: average(rows) for name, rows in groups.items()}, "failed": failed}


def _play(
    task: StudyTask, size: str, environments: list[Any], agents: list[Any]
) -> dict[str, dict[str, RunResults]]:
    number = max(10, task.size(size))
    options = {"horizon": task.size("horizon"), "seed": task.settings["seed"]}
    options["block_size"] = min(100, -(-number // 2))  # one for each of two cores
    return play_agents(task, environments, agents, replications=number, **options)


def _lost(run: RunResults, references: Iterable[RunResults]) -> np.ndarray:
    """Return the (R,) regrets beyond the references', as shares of their mean."""
    reference = np.mean([each.final("cumulative_regret") for each in references], axis=0)
    return np.asarray((run.final("cumulative_regret") - reference) / reference.mean())


def _measure_distance(task: StudyTask, entry: Mapping[str, Any], case: Case) -> tuple[float, float]:
    """Return the TV over noise, and what the exact distribution's favourite gets too much.

    Of agents that keep what they drew (SMC) the distance is that of a single run's distribution.
    """
    (read,) = read_entries("agents", "agent", [dict(entry)])
    seed = SeedSequence(task.settings["seed"], spawn_key=(zlib.crc32(case.name.encode()),))
    made = decide(read, case, max(1000, task.size("decisions")), seed)
    shares, leader = shares_of(made.arms, case.probabilities), case.probabilities.argmax()
    distance, num_drawn = total_variation(shares, case.probabilities), len(made.arms)
    if made.num_kept:
        distance, num_drawn = made.run_tv.mean(), made.num_kept
    excess = distance - noise_floor(case.probabilities, num_drawn)[0]
    return float(excess), float(shares[leader] - case.probabilities[leader])


def classify(distance: float, lean: float, near: float) -> str:
    """Return the class of an agent in an environment, by distance and the favourite's excess."""
    if distance <= near:
        return NEAR
    return LESS if lean < -near else MORE if lean > near else OTHER


def average(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Average over environments; of regret in each replication: they share their seeds, and luck.

    Args:
        rows: of each environment the distance, the favourite's excess and (R,) shares lost.
    """
    distance, lean, lost = (np.mean(each, axis=0) for each in zip(*rows, strict=True))
    details = {"environments": len(rows), "distance": float(distance), "lean": float(lean)}
    return details | {"lost": np.round(lost, 4).tolist()}


def pool(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the average of agents' averages, each pair of agent and environment counting alike."""
    weights = [each["environments"] for each in groups]
    names = "distance", "lean", "lost"
    means = {n: np.average([each[n] for each in groups], axis=0, weights=weights) for n in names}
    return {"agents": len(groups), "environments": sum(weights)} | means


# -- With features ------------------------------------------------------------------------------


def _measure_environment(task: StudyTask, title: str) -> dict[str, Any]:
    """Return each agent's distances along a run, favourite's excesses, and regret lost."""
    settings, environment = task.settings, task.settings["environments"][title]
    races: list[dict[str, Any]] = [
        {"agent": "racing", "effective_samples": 12 * number, "label": f"race {number}"}
        for number in range(1, settings["references"] + 1)
    ]
    entries = [entry | {"label": label} for label, entry in settings["on_features"].items()]
    envs = [environment | {"label": title}]
    runs = _play(task, "replications_features", envs, [*races, *entries])[title]
    references = [runs[each["label"]] for each in races]
    found = _measure_along_runs(task, environment)
    for label in found:
        found[label]["lost"] = list(mean_interval(_lost(runs[label], references)))
    return found


def _measure_along_runs(task: StudyTask, environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each agent's probabilities are off by, given the data of a race's runs."""
    settings, horizon, num_lanes = task.settings, task.size("horizon"), task.size("lanes")
    options = {name: value for name, value in environment.items() if name != "env"}
    env = gym.make_vec(environment["env"], num_envs=num_lanes, **options)
    problem: Any = env.unwrapped.problem  # type: ignore[attr-defined]
    read = read_entries("agents", "agent", settings["on_features"])
    race: Any = RacingThompson(problem)
    others = {entry.label: make_suite_agent(entry, problem, horizon) for entry in read}
    seed = SeedSequence(settings["seed"])
    rng = np.random.default_rng(seed.spawn(1)[0])
    observation, _ = env.reset(seed=settings["seed"])
    for agent in (race, *others.values()):
        agent.reset(num_envs=num_lanes, seed=seed.spawn(1)[0])
    found: dict[str, Any] = {label: {"distances": [], "leans": []} for label in others}
    steps = [max(1, round(step * horizon / max(settings["steps"]))) for step in settings["steps"]]
    for step in range(1, horizon + 1):
        actions, *_ = [agent.act(observation) for agent in (race, *others.values())]
        if step in steps:
            truth, again, *shares = (
                find_shares(agent, observation, rng, task.size("draws"))
                for agent in (race, race, *others.values())
            )
            noise, leaders = total_variation(truth, again).mean(), truth.argmax(axis=1)[:, None]
            for label, each in zip(others, shares, strict=True):
                excess = np.take_along_axis(each - again, leaders, axis=1)
                found[label]["distances"].append(float(total_variation(each, truth).mean() - noise))
                found[label]["leans"].append(float(excess.mean()))
        observation, rewards, *_ = env.step(actions)
        for agent in (race, *others.values()):
            agent.observe(actions, rewards)
    return found


def find_shares(agent: Any, features: np.ndarray, rng: Generator, num_draws: int) -> np.ndarray:
    """Return (N, K) probabilities of arms: those of an ensemble, or frequencies in D draws."""
    if not hasattr(agent, "inner"):
        return np.asarray(agent.action_probabilities(features))
    shares = np.zeros(features.shape[:2])
    for _ in range(num_rounds := max(1, num_draws // DRAWS_AT_ONCE)):
        draws = agent.inner.sample_many(rng, DRAWS_AT_ONCE)
        best = np.einsum("nkd,snd->nsk", features, draws).argmax(axis=2)
        shares += [np.bincount(arms, minlength=features.shape[1]) for arms in best]
    return shares / (num_rounds * DRAWS_AT_ONCE)


# -- The page -----------------------------------------------------------------------------------


def write_tables(found: Found) -> dict[str, str]:
    """Return the verdicts and the tables of the page."""
    agents = parts_of(found, "agent")
    alone = {label: part["groups"][ALL_KINDS] for label, part in agents.items()}
    failed = [
        f"- {label} in {environment}: {words}"
        for label, part in agents.items()
        for environment, words in part["failed"].items()
    ]
    order = sorted(alone, key=lambda label: mean_interval(np.array(alone[label]["lost"])).estimate)
    features = parts_of(found, "features").items()
    return {
        "claims": markdown_rows(judge_claims(found)),
        "agents": markdown_rows([_agent_cells(label, agents[label]["groups"]) for label in order]),
        "features": markdown_rows(
            [
                _feature_cells(title, label, row, found["settings"]["steps"])
                for title, rows in features
                for label, row in rows.items()
            ]
        ),
        "failed": "\n".join(failed) or "Nothing.",
    }


def find_claims(found: Found) -> dict[str, tuple[dict[str, Any], Interval]]:
    """Return of each claim what it is about and the interval of the share of regret lost.

    The intervals hold together (Bonferroni). A claim that nothing is known of is left out.
    """
    settings, agents, pooled = found["settings"], parts_of(found, "agent"), {}
    for claim in settings["claims"]:
        labels, group = settings["agents"], claim
        if claim in settings["bent"]:
            labels, group = [claim], ALL_KINDS
        parts = [agents[label]["groups"] for label in labels if label in agents]
        if groups := [each[group] for each in parts if group in each]:
            pooled[claim] = pool(groups)
    confidence = 1 - settings["level"] / len(settings["claims"])
    return {
        claim: (each, mean_interval(each["lost"], confidence=confidence))
        for claim, each in pooled.items()
    }


def judge_interval(interval: Iterable[float], margin: float) -> str:
    """Say what an interval of the share of regret lost comes to."""
    _, low, high = interval
    if max(abs(low), abs(high)) <= margin:
        return SAME
    return COSTS if low > 0 else GAINS if high < 0 else OPEN


def judge_claims(found: Found) -> list[dict[str, str]]:
    """Return a row for each claim: it holds or fails as its one interval says."""
    rows = []
    for claim, (about, interval) in find_claims(found).items():
        expected = found["settings"]["claims"][claim]
        word = judge_interval(interval, found["settings"]["margin"])
        rows.append(
            {
                "claim": f"{claim}: {expected}",
                "verdict": verdict(word == expected, word != OPEN),
                "regret lost": _share(interval),
                "favourite's excess": f"{about['lean']:+.3f}",
                "agents × environments": str(about["environments"]),
            }
        )
    return rows


def _share(interval: Iterable[float]) -> str:
    return "{:+.0%} [{:+.0%}, {:+.0%}]".format(*interval)


def _agent_cells(label: str, groups: Mapping[str, Any]) -> dict[str, str]:
    row = groups[ALL_KINDS]
    cells = {"agent": label, "distance": f"{row['distance']:.3f}"}
    cells |= {"favourite's excess": f"{row['lean']:+.3f}"}
    for title, group in (("near", NEAR), ("too little", LESS), ("too much", MORE)):
        cells[title] = str(groups.get(group, {"environments": 0})["environments"])
    return cells | {"regret lost": _share(mean_interval(np.array(row["lost"])))}


def _feature_cells(
    title: str, label: str, row: Mapping[str, Any], steps: list[int]
) -> dict[str, str]:
    cells = {"prior, contexts": title, "agent": label}
    for step, distance in zip(steps, row["distances"], strict=True):
        cells[f"distance at {step:,}"] = f"{distance:.3f}"
    cells["favourite's excess"] = f"{np.mean(row['leans']):+.3f}"
    return cells | {"regret lost": _share(row["lost"])}


def draw(found: Found) -> dict[str, Figure]:
    """Draw what is lost against the favourite's excess, without and with features."""
    figure = Figure(figsize=(8.2, 4.0), layout="constrained")
    plain, contextual = figure.subplots(1, 2)
    for label, part in parts_of(found, "agent").items():
        if label in found["settings"]["agents"]:
            kinds = [part["groups"][name] for name in part["groups"] if _is_kind(name)]
            lost = [np.mean(each["lost"]) for each in kinds]
            plain.plot([each["lean"] for each in kinds], lost, "o", color="0.6", markersize=3)
    for number, (claim, (about, interval)) in enumerate(find_claims(found).items()):
        _draw_point(plain, about["lean"], interval, COLOURS[number], claim)
    rows = [row for part in parts_of(found, "features").values() for row in part.items()]
    for number, label in enumerate(found["settings"]["on_features"]):
        for count, row in enumerate(row for own, row in rows if own == label):
            text = label if count == 0 else None
            _draw_point(contextual, np.mean(row["leans"]), row["lost"], COLOURS[number], text)
    for axes, title in ((plain, "without features"), (contextual, "with features")):
        axes.axhline(0, color="#888888", lw=0.8, ls=":")
        axes.axvline(0, color="#888888", lw=0.8, ls=":")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set(title=title, xlabel="favourite's excess", ylabel="regret lost, of the exact one's")
        axes.legend(frameon=False, fontsize="small")
    return {"distance": figure}


def _is_kind(group: str) -> bool:
    return group not in (ALL_KINDS, NEAR, LESS, MORE, OTHER)


def _draw_point(
    axes: Axes, lean: float, interval: Iterable[float], colour: str, label: str | None
) -> None:
    share, low, high = interval
    ends = [[share - low], [high - share]]
    axes.errorbar(lean, share, ends, fmt="o", color=colour, capsize=2, label=label)
