"""Races on one random problem, for Theorem 1 judged a problem at a time; kept on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np
from numpy.random import SeedSequence
from pages.command import Task

from bandit_gym.files import RESULTS_VERSION
from bandit_gym.typing import FloatArray
from paper.readings import Reading
from paper.theorem1 import Case, race_for_errors, random_cases
from paper.trials import FIRST_BATCH

SIGMA = 0.1
RACES_PER_BATCH = 250


class Problem(NamedTuple):
    """One of the random problems, by its number."""

    number: int

    def sample(self, task: Task, look: int) -> RaceSample:
        """Return the races of a look."""
        return RaceSample(self.number, task, look)

    def pilot(self, task: Task, reading: Reading) -> float:
        """Return how many samples a race takes in the first batch."""
        one = replace(task, sizes={"batches": 1})
        return float(self.sample(one, 1).race(reading)[2].mean())


class RaceSample(NamedTuple):
    """Races on a problem, in batches.

    Attributes:
        number: of the problem.
        task: the folder, `batches` of the first look, and who computes.
        look: how many times as many batches.
    """

    number: int
    task: Task
    look: int = 1

    def errors(self, reading: Reading) -> FloatArray:
        """Return (R,) 1 where a race returned an arm that is worse than the best by over sigma."""
        return self.race(reading)[0]

    def race(self, reading: Reading) -> FloatArray:
        """Return (3, R) errors, races that could not err, and samples; see `race_for_errors`."""
        case = random_cases(self.number + 1)[-1]
        num_batches = self.task.sizes["batches"] * self.look
        batches = joblib.Parallel(n_jobs=self.task.workers.num_workers or -1)(
            joblib.delayed(_race_batch)(self.task, case, reading, self.number, batch)
            for batch in range(FIRST_BATCH, FIRST_BATCH + num_batches)
        )
        return np.concatenate(batches, axis=1)


def _race_batch(task: Task, case: Case, reading: Reading, number: int, batch: int) -> FloatArray:
    """Race, or read what was raced before."""
    name = f"v{RESULTS_VERSION}-{reading.name}-{number}-{batch}.npy".replace(", ", "-")
    path = task.folder / "data" / "races" / name
    if not path.exists():
        options = {"proposal": reading.proposal, "threshold": reading.threshold}
        options |= {"scale": reading.scale, "sigma": SIGMA}
        seed = SeedSequence(number, spawn_key=(batch,))
        found = race_for_errors(case, options, RACES_PER_BATCH, seed, reading.make)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part.npy")
        np.save(scratch, found)
        scratch.replace(path)
    return np.load(path)
