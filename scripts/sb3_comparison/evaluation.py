"""All agents of a world on the same episodes.

An experiment has one observation mode per environment, and models differ in theirs. So every mode
is an experiment of its own, with the same seed: the means and the reward noise of a replication
depend on nothing else, and replications can be paired across modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pages.command import Task
from pages.simulations import Runs, simulate

from bandit_gym.experiments.execution import Workers
from sb3_comparison.settings import FROZEN, LEARNS, NEITHER, World
from sb3_comparison.training import Trained

EVALUATION_SEED = 20_261_120
"""No training uses it: the models have not met these instances."""


class Panel(NamedTuple):
    """What all agents did in a world.

    Attributes:
        world: the world.
        runs: agent -> its evaluation episodes, the reference first.
        models: agent -> its model, if it was trained before.
    """

    world: World
    runs: Runs
    models: dict[str, Trained]

    def kind(self, label: str) -> str:
        """Say whether an agent learns inside the instance, was trained before, or neither."""
        return FROZEN if label in self.models else NEITHER if label == "random" else LEARNS


def evaluate(world: World, models: Sequence[Trained], folder: Path, workers: Workers) -> Panel:
    """Play the evaluation episodes that are missing, and return all.

    Raises:
        RuntimeError: if an agent failed; its folder holds the traceback.
    """
    task = Task({"replications": world.replications, "horizon": world.horizon}, folder, workers)
    entries = {"constant": list(world.learners)}
    for trained in models:
        entries.setdefault(trained.training.observation, []).append(_entry(trained))
    runs: Runs = {}
    for observation, agents in entries.items():
        print(f"playing {world.title}, observation {observation!r}", flush=True)
        env = world.entry(observation) | {"label": world.title}
        sizes = {"seed": EVALUATION_SEED, "block_size": world.block_size}
        runs |= simulate(task, [env], agents, **sizes)[world.title]
    return Panel(world, runs, {trained.training.label: trained for trained in models})


def _entry(trained: Trained) -> dict[str, Any]:
    """Name a model by its file, whose name is its content, relative to where we are."""
    return {
        "agent": "agents.sb3:saved_model",
        "path": str(trained.path),
        "deterministic": trained.training.deterministic,
        "label": trained.training.label,
    }
