"""Beside Stable-Baselines3: what training is worth, and trained models beside agents that learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from matplotlib.figure import Figure
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule

from agents.bayes_optimal import expected_regret, optimal_value
from agents.optimum.predictive import expected_best_mean
from agents.sb3 import GymnasiumVecEnv, SB3Agent
from bandit_gym.checks.styles import COLOURS
from bandit_gym.results.statistics import mean_interval
from bandit_gym.rollout import rollout
from scripts.studies.study import Found, Task, play, table

EVALUATION_SEED = 20_261_120
"""No training uses it: the models have not met these instances."""

FIRST_CHECKPOINT = 10_000


class ScaledCounts(BaseFeaturesExtractor):
    """Turn counts into posterior means under a uniform prior, their precision, and the time left.

    The first few pulls matter most, and among counts over the horizon they are next to nothing.

    Args:
        space: of the observation mode `counts`, (2 K + 1,).
        horizon: T, by which the pulls in it were divided.
    """

    def __init__(self, space: Any, horizon: int) -> None:
        super().__init__(space, space.shape[0])
        self.num_arms, self.horizon = space.shape[0] // 2, horizon

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        """Return (B, 2 K + 1) features of (B, 2 K + 1) observations."""
        pulls, averages, left = torch.split(counts, [self.num_arms, self.num_arms, 1], dim=1)
        pulls = pulls * self.horizon
        means = (pulls * averages + 1) / (pulls + 2)
        return torch.cat([4 * means - 2, 2 / (pulls + 1).sqrt() - 1, 2 * left - 1], dim=1)


class Checkpoints(BaseCallback):
    """Evaluates the model at the start, at `FIRST_CHECKPOINT` pulls, and when they doubled."""

    def __init__(self, evaluate: Callable[[Any], float]) -> None:
        super().__init__()
        self._evaluate, self._next, self._since = evaluate, 0, process_time()
        self.found: dict[str, Any] = {"pulls": [], "returns": [], "seconds": 0.0}

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._next:
            self.evaluate()
            self._next = max(2 * self._next, FIRST_CHECKPOINT)

    def evaluate(self) -> None:
        """Note the mean return of the policy as it is now."""
        self.found["seconds"] += process_time() - self._since
        self.found["pulls"].append(self.num_timesteps)
        self.found["returns"].append(self._evaluate(self.model))
        self._since = process_time()


def parts(task: Task) -> dict[str, Callable[[], Any]]:
    """Return a part for each variant, and for each world."""
    settings = task.settings
    found: dict[str, Callable[[], Any]] = {"bounds": partial(bounds, settings["short"])}
    for label in settings["variants"]:
        found[f"learning: {label}"] = partial(_learn, task, label)
    for world in settings["worlds"]:
        found[f"world: {world['title']}"] = partial(_compare, task, world)
    return found


def make_world(env: Mapping[str, Any], horizon: int, observation: str, num_envs: int) -> Any:
    """Build lanes of a world, which start anew in the step in which they end."""
    options: dict[str, Any] = {**env, "max_episode_steps": horizon, "observation": observation}
    name = f"bandit_gym:{options.pop('env')}"
    options.pop("horizon", None)
    return gym.make_vec(name, num_envs=num_envs, autoreset_mode="SameStep", **options)


def described(settings: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return a model's settings, with those of the model that it is like."""
    told = settings["models"][label]
    return settings["models"].get(told.get("like"), {}) | told


def make_model(
    settings: Mapping[str, Any], label: str, env: Mapping[str, Any], horizon: int, seed: int
) -> Any:
    """Build an untrained model and its environments, stepped as one batch."""
    told = described(settings, label)
    lanes = make_world(env, horizon, told["observation"], told["num_envs"])
    options = dict(told["options"])
    if told.get("is_scaled"):
        features = {"features_extractor_class": ScaledCounts}
        options["policy_kwargs"] = features | {"features_extractor_kwargs": {"horizon": horizon}}
    options["learning_rate"] = LinearSchedule(options["learning_rate"], 0.0, end_fraction=1.0)
    home = stable_baselines3 if hasattr(stable_baselines3, told["algorithm"]) else sb3_contrib
    ended = GymnasiumVecEnv(lanes, ends_at_horizon=told.get("ends_at_horizon", True))
    torch.set_num_threads(1)  # fastest for networks of this size, and results do not depend on it
    make = getattr(home, told["algorithm"])
    return make(told["policy"], ended, seed=seed, device="cpu", **options)


def _learn(task: Task, label: str) -> list[dict[str, Any]]:
    """Train one variant a few times, and return what each training found at its checkpoints."""
    short, found = task.settings["short"], []
    for seed in range(task.settings["trainings"]):
        model = make_model(task.settings, label, short, short["horizon"], seed)
        watch = Checkpoints(partial(mean_return, short, task.size("episodes")))
        model.learn(task.size("learning"), callback=watch)
        watch.evaluate()
        found.append(watch.found)
    return found


def mean_return(short: Mapping[str, Any], num_episodes: int, model: Any) -> float:
    """Return the mean return of a policy: what the best arms would return, less its regret."""
    world = make_world(short, short["horizon"], "counts", num_episodes)
    played: Any = rollout(SB3Agent(model), world, seed=EVALUATION_SEED).regret
    best = short["horizon"] * expected_best_mean(world.unwrapped.problem)
    return float(best - np.sum(played, axis=1).mean())


def bounds(short: Mapping[str, Any]) -> dict[str, float]:
    """Return what random play, Thompson sampling and the best possible policy return, exactly."""
    horizon = short["horizon"]
    problem = make_world(short, horizon, "constant", 1).unwrapped.problem
    best = horizon * expected_best_mean(problem)
    return {
        "random play": float(best - expected_regret(problem, "random", horizon)[-1]),
        "exact Thompson": float(best - expected_regret(problem, "thompson", horizon)[-1]),
        "best possible": float(optimal_value(problem, horizon)),
    }


def _compare(task: Task, world: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Train the models of a world, and return a row for each agent on the same episodes.

    A mode of observation is an experiment of its own with the same seed: means and noise of a
    replication depend on nothing else.
    """
    settings, horizon, learners = task.settings, world["horizon"], task.settings["agents"]
    number = max(10, task.size("replications"))
    entries = {"constant": [entry | {"label": label} for label, entry in learners.items()]}
    trained = {label: _train(task, world, label, horizon) for label in world["models"]}
    for label, (path, _, _) in trained.items():
        told = described(settings, label)
        entry = {"agent": "agents.sb3:saved_model", "path": str(path), "label": label}
        entry["deterministic"] = told.get("deterministic", False)
        entries.setdefault(told["observation"], []).append(entry)
    runs: dict[str, Any] = {}
    for observation, agents in entries.items():
        env = world["env"] | {"observation": observation, "label": world["title"]}
        sizes = {"replications": number, "horizon": horizon, "seed": EVALUATION_SEED}
        runs |= play(task, [env], agents, **sizes)[world["title"]]
    reference, rows = runs[next(iter(learners))].final("cumulative_regret"), []
    for label, run in runs.items():
        regret, (_, steps, seconds) = (
            run.final("cumulative_regret"),
            trained.get(label, (None, 0, 0.0)),
        )
        rows.append(
            {"agent": label, "steps": steps, "seconds": seconds}
            | {"return": list(mean_interval(run.final("reward")))}
            | {"regret": list(mean_interval(regret))}
            | {"difference": list(mean_interval(regret - reference))}
            | {"of_random": float(regret.mean() / run.final("uniform_regret").mean())}
            | {"microseconds": 1e6 * run.seconds_per_decision()}
        )
    return sorted(rows, key=lambda row: row["regret"][0])


def _train(
    task: Task, world: Mapping[str, Any], label: str, horizon: int
) -> tuple[Path, int, float]:
    """Train and store a model; return its file, the pulls, and the processor time."""
    begin = process_time()
    model = make_model(task.settings, label, world["env"], horizon, task.settings["seed"])
    model.learn(task.size(described(task.settings, label)["algorithm"]))
    path = task.folder / f"{world['title']}, {label}.zip"
    model.save(path)
    return path, model.num_timesteps, process_time() - begin


def tell(found: Found) -> dict[str, str]:
    """Return the table of the variants, and one for each world."""
    worlds = [
        f"### {name.removeprefix('world: ')}\n\n{table([_cells(row) for row in rows])}"
        for name, rows in found["numbers"].items()
        if name.startswith("world")
    ]
    rows = [_variant_cells(found, label, each) for label, each in _variants(found).items()]
    return {"learning": table(rows), "worlds": "\n\n".join(worlds)}


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


def _variants(found: Found) -> dict[str, list[dict[str, Any]]]:
    """Return the trainings of each variant."""
    labels = found["settings"]["variants"]
    return {label: found["numbers"][f"learning: {label}"] for label in labels}


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    titles = {"return": "return", "regret": "regret", "difference": "less exact TS's"}
    cells = {"agent": row["agent"]}
    cells |= {t: "{:.2f} [{:.2f}, {:.2f}]".format(*row[name]) for name, t in titles.items()}
    cells |= {"share of random's": f"{row['of_random']:.0%}"}
    cells |= {"trained on": f"{row['steps']:,}" if row["steps"] else "-"}
    cells |= {"CPU time": f"{row['seconds']:.0f} s" if row["steps"] else "-"}
    return cells | {"µs/decision": f"{row['microseconds']:.1f}"}


def draw(found: Found) -> dict[str, Figure]:
    """Draw the mean return of each variant against the pulls that it was trained on."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for label, value in found["numbers"]["bounds"].items():
        axes.axhline(value, color="0.4", linewidth=1, linestyle="--")
        axes.annotate(f"{label}, {value:.1f}", (1.02, value), xycoords=("axes fraction", "data"))
    for (label, parts), colour in zip(_variants(found).items(), COLOURS, strict=False):
        returns = np.array([part["returns"] for part in parts])
        pulls = parts[0]["pulls"]
        axes.plot(pulls, returns.mean(axis=0), color=colour, label=label)
        axes.fill_between(pulls, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.2)
    axes.set(xscale="log", xlabel="pulls trained on", ylabel="mean return")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    return {"sb3": figure}
