"""Worlds that agents play in for a claim, and what they did there, as one number a cluster.

Batch b of a trial has the seed b and its lanes play together; the first one is `FIRST_BATCH`. All
agents meet the same means and the same reward noise, so that their differences are paired. Where
each batch has a world of its own (a prior drawn at random, say), a batch is one cluster, whose
lanes are averaged: what is said holds for the law of the worlds, not for those that were drawn. In
a given world every lane is a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import joblib
import numpy as np
from pages.command import Task
from pages.simulations import carry_out, column_of, sample_schedule

from bandit_gym.experiments.execution import Workers
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.typing import FloatArray, IntArray
from paper.readings import Reading

Entry = Mapping[str, Any]

DEAR_SAMPLES = 10_000
PILOT_STEPS = 20
FIRST_BATCH = 1000
"""Those before were looked at while the study's sizes were chosen, and are no evidence any more."""

AT_ONCE = 4
"""Batches that play as one where all have the same world: a step costs little more with them."""


class Played(NamedTuple):
    """What an agent did in a batch.

    Attributes:
        steps: (S,) recorded ones.
        regrets: (L, S) pseudo-regrets so far.
        samples: (L, S) samples of races so far; NaN where an agent takes none.
    """

    steps: IntArray
    regrets: FloatArray
    samples: FloatArray


@dataclass(frozen=True)
class Trial:
    """Worlds and how long they are played in.

    Attributes:
        name: of the world or its family.
        world: batch -> its environment.
        lanes: of a batch; batches of a given world play four at a time.
        is_drawn: whether each batch has a world of its own.
        found: what was played already.
    """

    name: str
    world: Callable[[int], Entry]
    lanes: int
    is_drawn: bool = False
    found: dict[str, Played] = field(default_factory=dict)

    def sample(self, task: Task, look: int = 1) -> Sample:
        """Return the batches of a look."""
        return Sample(self, task, look)

    def pilot(self, task: Task, reading: Reading) -> float:
        """Return how many samples a decision takes in the first steps, `DEAR_SAMPLES` at most.

        Raises:
            ValueError: if the agent cannot race there.
        """
        short = replace(task, sizes={"batches": 1, "horizon": PILOT_STEPS})
        agent = reading.entry() | {"max_samples": DEAR_SAMPLES}
        return float(self.sample(short).samples_per_decision(agent).mean())


@dataclass(frozen=True)
class Sample:
    """Some batches of a trial; an agent plays them when it is first asked for.

    Attributes:
        trial: that they are of.
        task: the folder, the horizon, `batches` of the first look, and who computes.
        look: how many times as many batches.
    """

    trial: Trial
    task: Task
    look: int = 1

    def regrets(self, agent: Entry, step: int | None = None) -> FloatArray:
        """Return an agent's (C,) pseudo-regrets at a step, or else at the horizon."""
        return self._clusters(
            [each.regrets[:, column_of(each.steps, step)] for each in self._play(agent)]
        )

    def samples_per_decision(self, agent: Entry) -> FloatArray:
        """Return an agent's (C,) samples of a race, on average."""
        return self._clusters([each.samples[:, -1] / each.steps[-1] for each in self._play(agent)])

    def schedule(self, agent: Entry) -> list[int]:
        """Return how many samples a decision took at each step, on average at the first look."""
        played = replace(self, look=1)._play(agent)
        sums = np.concatenate([each.samples for each in played])
        return sample_schedule(played[0].steps, sums)

    def _clusters(self, batches: list[FloatArray]) -> FloatArray:
        if self.trial.is_drawn:
            return np.array([batch.mean() for batch in batches])
        return np.concatenate(batches)

    def _play(self, agent: Entry) -> list[Played]:
        found, at_once = self.trial.found, 1 if self.trial.is_drawn else AT_ONCE
        num_batches = -(-self.task.sizes["batches"] * self.look // at_once)
        batches = range(FIRST_BATCH, FIRST_BATCH + num_batches)
        lanes = self.trial.lanes * at_once
        keys = [json.dumps([self.task.sizes["horizon"], agent, batch]) for batch in batches]
        missing = {key: batch for key, batch in zip(keys, batches, strict=True) if key not in found}
        played = joblib.Parallel(n_jobs=self.task.workers.num_workers or -1)(
            joblib.delayed(_play_batch)(self.task, self.trial.world(b), agent, b, lanes)
            for b in missing.values()
        )
        found |= dict(zip(missing, played, strict=True))
        return [found[key] for key in keys]


def _play_batch(task: Task, world: Entry, agent: Entry, seed: int, lanes: int) -> Played:
    """Simulate a batch, or read it where it was simulated before."""
    sizes = {"replications": lanes, "block_size": lanes, "horizon": task.sizes["horizon"]}
    experiment = Experiment((world,), (agent,), seed=seed, **sizes)
    runs = carry_out(task.folder, experiment, workers=Workers("serial"))
    (found,) = runs[experiment.environments[0].label].values()
    return Played(found.steps, found.curves("pseudo_regret"), found.curves("num_samples"))
