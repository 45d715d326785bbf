"""How much training brings how much: the return of policies, from checkpoint to checkpoint.

One world, three arms and twenty pulls, where the returns of Thompson sampling and of the best
possible policy are known exactly. What differs between the variants is one thing at a time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from agents.optimum.predictive import expected_best_mean
from agents.sb3 import SB3Agent
from bandit_gym.files import write_atomically
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from sb3_comparison.settings import PPO_ON_COUNTS, Training, World
from sb3_comparison.training import digest, make_model, make_world

EVALUATION_SEED = 20_261_122
NUM_EPISODES = 10_000
FIRST_CHECKPOINT = 10_000

SHORT = World("Bernoulli, uniform prior, 3 arms", "BernoulliBandit-v0", {"num_arms": 3}, 20, 0, 0)


class Curve(NamedTuple):
    """What a variant came to.

    Attributes:
        label: of the variant.
        pulls: (C,) pulls it was trained on.
        returns: (C, R) mean returns of its R trainings, each with a seed of its own.
        cpu_seconds: (R,) processor time of each training, evaluations left out.
    """

    label: str
    pulls: np.ndarray
    returns: np.ndarray
    cpu_seconds: np.ndarray


def variants(num_steps: int) -> dict[str, Training]:
    """Return what is trained, by label; the seed is still to be chosen."""
    ends = Training(**PPO_ON_COUNTS, num_steps=num_steps, seed=0)
    cut = replace(ends, ends_at_horizon=False)
    return {
        "PPO, cut off, γ = 1": cut,
        "PPO, cut off, γ = 0.97": replace(cut, options=cut.options | {"gamma": 0.97}),
        "PPO, ended": ends,
        "PPO, ended, scaled counts": replace(ends, is_scaled=True),
    }


def learn(label: str, training: Training, seeds: range, directory: Path) -> Curve:
    """Train with every seed, unless that was done, and return what came of it."""
    found = [_learn_once(replace(training, seed=seed), directory) for seed in seeds]
    returns = np.array([each["returns"] for each in found]).T
    seconds = np.array([each["cpu_seconds"] for each in found])
    return Curve(label, np.array(found[0]["pulls"]), returns, seconds)


def _learn_once(training: Training, directory: Path) -> dict[str, Any]:
    path = directory / f"{digest(SHORT, training)}.json"
    if not path.exists():
        torch.set_num_threads(1)
        model = make_model(SHORT, training)
        watch = Checkpoints()
        model.learn(training.num_steps, callback=watch)
        watch.evaluate()
        write_atomically(path, json.dumps(watch.found).encode())
    return dict(json.loads(path.read_bytes()))


class Checkpoints(BaseCallback):
    """Evaluates the model at the start, at `FIRST_CHECKPOINT` pulls, and when they doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Any] = {"pulls": [], "returns": [], "cpu_seconds": 0.0}
        self._next, self._since = 0, process_time()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._next:
            self.evaluate()
            self._next = max(2 * self._next, FIRST_CHECKPOINT)

    def evaluate(self) -> None:
        """Note the mean return of the policy as it is now."""
        self.found["cpu_seconds"] += process_time() - self._since
        self.found["pulls"].append(self.num_timesteps)
        self.found["returns"].append(mean_return(self.model))
        self._since = process_time()


def make_problem() -> BanditProblem:
    """Return what an agent of this world is told."""
    return make_world(SHORT, "constant", 1).unwrapped.problem


def mean_return(model: Any) -> float:
    """Return the mean return of a policy: what the best arms would return, less its regret."""
    world = make_world(SHORT, "counts", NUM_EPISODES)
    episodes = rollout(SB3Agent(model), world, seed=EVALUATION_SEED)
    assert episodes.pseudo_regret is not None
    best = SHORT.horizon * expected_best_mean(make_problem())
    return float(best - episodes.pseudo_regret.sum(axis=1).mean())
