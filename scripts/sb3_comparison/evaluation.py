"""All agents of a world on the same episodes.

An experiment has one observation mode per environment, and models differ in theirs. So every mode
is an experiment of its own, with the same seed: the means and the reward noise of a replication
depend on nothing else, and replications can be paired across modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages.command import Task
from pages.simulations import simulate

from bandit_gym.experiments.execution import Workers
from bandit_gym.results.results import RunResults
from sb3_comparison.settings import FROZEN, LEARNS, NEITHER, World
from sb3_comparison.training import Trained

EVALUATION_SEED = 20_261_120
"""No training uses it: the models have not met these instances."""


@dataclass(frozen=True)
class Played:
    """What one agent did in a world.

    Attributes:
        results: its evaluation episodes.
        kind: whether it learned inside the instance, was trained before and frozen, or neither.
        trained: its model, if it was trained before.
    """

    results: RunResults
    kind: str
    trained: Trained | None = None

    @property
    def label(self) -> str:
        """What tables and figures call it."""
        return self.results.run.agent.label


def evaluate(
    world: World, models: Sequence[Trained], folder: Path, workers: Workers
) -> list[Played]:
    """Play the evaluation episodes that are missing, and return all, the reference first.

    Raises:
        RuntimeError: if an agent failed; its folder holds the traceback.
    """
    task = Task({"replications": world.replications, "horizon": world.horizon}, folder, workers)
    played = [
        Played(found, NEITHER if found.run.agent.label == "random" else LEARNS)
        for found in _play(world, "constant", world.learners, task)
    ]
    for observation in sorted({_observation(trained) for trained in models}):
        members = [trained for trained in models if _observation(trained) == observation]
        found = _play(world, observation, [_entry(trained) for trained in members], task)
        played += [Played(f, FROZEN, t) for f, t in zip(found, members, strict=True)]
    return played


def _play(
    world: World, observation: str, agents: Sequence[dict[str, Any]], task: Task
) -> list[RunResults]:
    entry = {"env": world.env, **world.env_options, "observation": observation}
    print(f"playing {world.title}, observation {observation!r}", flush=True)
    runs = simulate(
        task, [entry | {"label": world.title}], agents, seed=EVALUATION_SEED,
        block_size=world.block_size,
    )  # fmt: skip
    return list(runs[world.title].values())


def _observation(trained: Trained) -> str:
    return str(trained.training.env_options["observation"])


def _entry(trained: Trained) -> dict[str, Any]:
    """Name a model by its file, whose name is its content, relative to where we are."""
    return {
        "agent": "agents.sb3:saved_model",
        "path": str(trained.path),
        "deterministic": trained.training.deterministic,
        "label": trained.training.label,
    }
