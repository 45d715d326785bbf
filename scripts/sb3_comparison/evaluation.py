"""All agents of a world on the same episodes.

An experiment has one observation mode per environment, and models differ in theirs. So every mode
is an experiment of its own, with the same seed: the means and the reward noise of a replication
depend on nothing else, and replications can be paired across modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.results.results import RunResults, load_results
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
    trained: Trained | None

    @property
    def label(self) -> str:
        """What tables and figures call it."""
        return self.results.run.agent.label


def evaluate(
    world: World, models: Sequence[Trained], directory: Path, workers: Workers
) -> list[Played]:
    """Play the evaluation episodes that are missing, and return all, the reference first.

    Args:
        world: with its learners.
        models: trained for this world.
        directory: one folder per observation mode comes into it.
        workers: who plays.

    Raises:
        RuntimeError: if an agent failed; its folder holds the traceback.
    """
    played = [
        Played(found, NEITHER if found.run.agent.label == "random" else LEARNS, None)
        for found in _play(world, "constant", world.learners, directory, workers)
    ]
    ordered = sorted(models, key=_observation)
    for observation, group in groupby(ordered, key=_observation):
        members = list(group)
        entries = [_entry(trained) for trained in members]
        found = _play(world, observation, entries, directory, workers)
        played += [Played(f, FROZEN, t) for f, t in zip(found, members, strict=True)]
    return played


def _play(
    world: World,
    observation: str,
    agents: Sequence[dict[str, Any]],
    directory: Path,
    workers: Workers,
) -> list[RunResults]:
    options = world.env_options | {"observation": observation, "label": world.title}
    experiment = Experiment(
        environments=({"env": world.env, **options},),
        agents=tuple(agents),
        replications=world.replications,
        horizon=world.horizon,
        seed=EVALUATION_SEED,
        block_size=min(world.block_size, world.replications),
    )
    folder = directory / f"{world.name}-{observation}-{experiment.name}"
    print(f"playing {world.title}, observation {observation!r}", flush=True)
    with progress_on_stderr() as on_progress:
        run_experiment(experiment, folder, workers=workers, on_progress=on_progress)
    results = load_results(folder)
    if results.failed:
        failure = next(iter(results.failed[0].failures.values()))
        raise RuntimeError(f"{results.failed[0].run.agent.label} failed in {folder}:\n{failure}")
    return list(results.runs)


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
