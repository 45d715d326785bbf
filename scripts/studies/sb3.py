"""Beside Stable-Baselines3: what training is worth, and trained models beside agents that learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from agents.bayes_optimal import expected_regret, optimal_value
from agents.oracle.predictive import expected_best_mean
from agents.sb3 import SB3Agent
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.statistics import mean_interval
from bandit_gym.rollout import rollout
from bandit_gym.styles import GREY, MAX_WIDTH, line_style
from scripts.studies import models
from scripts.studies.study import Found, StudyTask, parts_of, play_agents, write_interval

EVALUATION_SEED = 20_261_120
"""No training uses it: the models have not met these instances."""


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each variant, and for each environment."""
    settings, found = task.settings, dict[str, Callable[[], Any]]()
    found["bounds"] = partial(find_reference_returns, settings["short"])
    for label in settings["variants"]:
        found[f"learning: {label}"] = partial(_learn, task, label)
    for environment in settings["worlds"]:
        title = environment["title"]
        found[f"world: {title}"] = partial(_compare_agents, task, environment)
        rules = [environment["agents"][0], *settings["rules"], "random"]
        without_models = environment | {"agents": rules, "models": []}
        found[f"rules: {title}"] = partial(_compare_agents, task, without_models)
    return found


def _learn(task: StudyTask, label: str) -> list[dict[str, Any]]:
    """Train one variant a few times, and return what each training found at its checkpoints."""
    short, found = task.settings["short"], []
    for seed in range(task.settings["trainings"]):
        details = models.resolve_model_settings(task.settings, label)
        model = models.make_model(details, short, short["horizon"], seed)
        watch = models.Checkpoints(partial(mean_return, short, task.size("episodes")))
        model.learn(task.size("learning"), callback=watch)
        watch.evaluate()
        found.append(watch.found)
    return found


def mean_return(short: Mapping[str, Any], num_episodes: int, model: Any) -> float:
    """Return the mean return of a policy: what the best arms would return, less its regret."""
    environment = models.make_training_env(short, short["horizon"], "counts", num_episodes)
    played: Any = rollout(SB3Agent(model), environment, seed=EVALUATION_SEED).regret
    best = short["horizon"] * expected_best_mean(environment.unwrapped.problem)
    return float(best - np.sum(played, axis=1).mean())


def find_reference_returns(short: Mapping[str, Any]) -> dict[str, float]:
    """Return what random play, Thompson sampling and the best possible policy return, exactly."""
    horizon = short["horizon"]
    problem = models.make_training_env(short, horizon, "constant", 1).unwrapped.problem
    best = horizon * expected_best_mean(problem)
    return {
        "random play": float(best - expected_regret(problem, "random", horizon)[-1]),
        "exact Thompson": float(best - expected_regret(problem, "thompson", horizon)[-1]),
        "best possible": float(optimal_value(problem, horizon)),
    }


def _compare_agents(task: StudyTask, environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Train the models of an environment, and return a row for each agent on the same episodes.

    A mode of observation is an experiment of its own with the same seed: means and noise of a
    replication depend on nothing else.
    """
    settings, horizon, learners = task.settings, environment["horizon"], environment["agents"]
    title, number = environment["title"], task.size("replications")
    entries = {"constant": [settings["agents"][each] | {"label": each} for each in learners]}
    trained = {label: _train(task, environment, label) for label in environment["models"]}
    for label, (path, _, _) in trained.items():
        details = models.resolve_model_settings(settings, label)
        entry = {"agent": "agents.sb3:saved_model", "path": str(path), "label": label}
        entry["deterministic"] = details.get("deterministic", False)
        entries.setdefault(details["observation"], []).append(entry)
    runs: dict[str, Any] = {}
    for observation, agents in entries.items():
        env = models.show_to_models(environment["env"], observation) | {"label": title}
        sizes = {"replications": number, "horizon": horizon, "seed": EVALUATION_SEED}
        runs |= play_agents(task, [env], agents, **sizes)[title]
    reference, random = (runs[each].final("cumulative_regret") for each in (learners[0], "random"))
    rows = []
    for label, run in runs.items():
        regret = run.final("cumulative_regret")
        _, steps, seconds = trained.get(label, (None, 0, 0.0))
        rows.append(
            {"agent": label, "steps": steps, "seconds": seconds}
            | {"return": list(mean_interval(run.final("reward")))}
            | {"regret": list(mean_interval(regret))}
            | {"difference": list(mean_interval(regret - reference))}
            | {"of_random": float(regret.mean() / random.mean())}
        )
    return sorted(rows, key=lambda row: row["regret"][0])


def _train(task: StudyTask, environment: Mapping[str, Any], label: str) -> tuple[Path, int, float]:
    """Train and store a model; return its file, the pulls, and the processor time."""
    begin, details = process_time(), models.resolve_model_settings(task.settings, label)
    model = models.make_model(
        details, environment["env"], environment["horizon"], task.settings["seed"]
    )
    model.learn(task.size(details["algorithm"]))
    path = task.folder / f"{environment['title']}, {label}.zip"
    model.save(path)
    return path, model.num_timesteps, process_time() - begin


def write_tables(found: Found) -> dict[str, str]:
    """Return the table of the variants, and one for each environment."""
    environments = [
        f"### {title}\n\n{markdown_rows([_return_cells(row) for row in _join_rules(found, title)])}"
        for title in parts_of(found, "world")
    ]
    variants = parts_of(found, "learning").items()
    rows = [_variant_cells(found, label, trainings) for label, trainings in variants]
    return {"learning": markdown_rows(rows), "worlds": "\n\n".join(environments)}


def _join_rules(found: Found, title: str) -> list[Mapping[str, Any]]:
    """Return the rows of an environment and those of the rules, which played the same episodes."""
    rows, rules = parts_of(found, "world")[title], parts_of(found, "rules").get(title, [])
    others = [row for row in rules if row["agent"] in found["settings"]["rules"]]
    return sorted(rows + others, key=lambda row: row["regret"][0])


def _variant_cells(found: Found, label: str, trainings: list[dict[str, Any]]) -> dict[str, str]:
    known, last = found["numbers"]["bounds"], np.array([each["returns"][-1] for each in trainings])
    chance, best = known["random play"], known["best possible"]
    return {
        "variant": label,
        "trainings": str(len(trainings)),
        "pulls": f"{trainings[0]['pulls'][-1]:,}",
        "return: mean, worst, best": f"{last.mean():.2f}, {last.min():.2f}, {last.max():.2f}",
        "of what can be gained": f"{(last.mean() - chance) / (best - chance):.0%}",
        "CPU time each": f"{np.mean([each['seconds'] for each in trainings]):.0f} s",
    }


def _return_cells(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "agent": row["agent"],
        "return": f"{row['return'][0]:.2f}",
        "regret": write_interval(row["regret"], 2),
        "less Thompson's": write_interval(row["difference"], 2) if any(row["difference"]) else "-",
        "of random's": f"{row['of_random']:.0%}",
        "trained on": f"{row['steps']:,}" if row["steps"] else "-",
        "CPU time": f"{row['seconds']:.0f} s" if row["steps"] else "-",
    }


def draw(found: Found) -> dict[str, Figure]:
    """Draw the mean return of each variant against the pulls that it was trained on."""
    figure = Figure(figsize=(MAX_WIDTH, 4.8), layout="constrained")
    axes = figure.subplots()
    for label, value in found["numbers"]["bounds"].items():
        axes.axhline(value, color=GREY, linewidth=1, linestyle="--")
        place: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "textcoords": "offset points",
        }
        above = label == "best possible"
        place |= {"va": "bottom" if above else "top", "xytext": (0, 2 if above else -2)}
        axes.annotate(f"{label}, {value:.1f}", (0.01, value), **place)
    for number, (label, parts) in enumerate(parts_of(found, "learning").items()):
        style, pulls = line_style(number), parts[0]["pulls"]
        returns = np.array([part["returns"] for part in parts])
        axes.plot(pulls, returns.mean(axis=0), label=label, marker=style.marker, **style.line)
        ends = returns.min(axis=0), returns.max(axis=0)
        axes.fill_between(pulls, *ends, color=style.colour, alpha=0.2, linewidth=0)
    axes.set(xscale="log", xlabel="pulls trained on", ylabel="mean return", ylim=(0, 15))
    figure.legend(loc="outside lower center", ncols=2)
    return {"sb3": figure}
