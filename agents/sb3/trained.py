"""A trained Stable-Baselines3 model, frozen, as an act/observe agent.

Such an agent was trained across instances, or on one: what it learned is in its weights and stays
as it is. Within an episode it knows only what its observation shows and, if it is recurrent, what
it remembers. Letters: K arms, N lanes.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, Never

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from numpy.random import SeedSequence
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from agents.base.agent import MOST_STATISTICS, make_generator
from agents.sb3.archive import make_model, read_settings, reading, stated_num_arms
from agents.sb3.isolation import isolated
from agents.sb3.law import Memory, policy_law
from bandit_gym.checks import (
    as_array,
    check_actions,
    check_available,
    check_integer,
    check_mask,
    message,
)
from bandit_gym.problem import BanditProblem, check_problem


class SB3Agent:
    """A trained model that plays N lanes at once and learns nothing more.

    It keeps the contract of `agents.base.Agent`, with two differences: `act` needs the observation,
    of the mode that the model was trained on, and the rewards given to `observe` are not looked at.
    The memory of a recurrent model moves on in `observe`, so that `act` can be asked twice.

    Args:
        model: PPO, A2C, DQN, RecurrentPPO or another SB3 model with `Discrete` actions, or the
            `policy` of one.
        deterministic: play the most probable action, or the one of highest value. Otherwise
            actions are drawn from the policy; a DQN explores with its last training rate, each
            lane by itself.

    Attributes:
        policy: the SB3 policy.
        num_envs: N, or None for a single run.

    Raises:
        TypeError: if the model is none of SB3's, its actions are not `Discrete`, or `deterministic`
            is no bool.
    """

    has_exact_law = True

    def __init__(self, model: Any, *, deterministic: bool = False) -> None:
        policy = getattr(model, "policy", model)
        if not isinstance(policy, BasePolicy):
            raise TypeError(
                f"model must be a Stable-Baselines3 model, got {model!r}; "
                "use SB3Agent.load for a path."
            )
        if not isinstance(policy.action_space, Discrete):
            raise TypeError(f"model must have Discrete actions, got {policy.action_space!r}.")
        if not isinstance(deterministic, bool):
            raise TypeError(f"deterministic must be True or False, got {deterministic!r}.")
        self.policy = policy
        self.deterministic = deterministic
        self.exploration_rate = float(getattr(model, "exploration_rate", 0.0))
        self.num_envs: int | None = None
        self._rng: np.random.Generator | None = None

    @classmethod
    def load(cls, path: str | Path, *, deterministic: bool = False) -> SB3Agent:
        """Read a model that `model.save` wrote, whatever its algorithm.

        A model file holds pickled Python objects: load only files that you trust.

        Args:
            path: the file; its `.zip` may be left out, as in SB3.
            deterministic: as above.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is no model of SB3's, or torn.
        """
        with reading(path):
            model = make_model(path, read_settings(path))
        return cls(model, deterministic=deterministic)

    @property
    def num_arms(self) -> int:
        """K, the number of actions of the model."""
        return int(self.policy.action_space.n)  # type: ignore[attr-defined]

    @property
    def num_lanes(self) -> int:
        """N, which is 1 for a single run."""
        return 1 if self.num_envs is None else self.num_envs

    def check_spaces(self, env: gym.Env | gym.vector.VectorEnv | VecEnv) -> None:
        """Raise ValueError, saying which, unless both spaces of an environment fit the model."""
        for name in ("observation_space", "action_space"):
            found = getattr(env, f"single_{name}", None) or getattr(env, name)
            expected = getattr(self.policy, name)
            if found != expected:
                raise ValueError(
                    f"env must have the {name.replace('_', ' ')} that the model was trained on, "
                    f"{expected}, got {found}."
                )

    def reset(self, num_envs: int | None = None, seed: int | SeedSequence | None = None) -> None:
        """Forget the episodes, not the training, and prepare for `num_envs` lanes.

        Args:
            num_envs: N >= 1 lanes, or None for a single run with scalar actions.
            seed: as for every agent; None keeps the present generator.
        """
        if num_envs is not None:
            num_envs = check_integer("num_envs", num_envs, minimum=1, maximum=MOST_STATISTICS)
        if seed is not None or self._rng is None:
            self._rng = make_generator(seed, type(self).__name__)
        self.num_envs = num_envs
        self._memory: Memory | None = None
        self._next_memory: Memory | None = None
        self._is_start = np.ones(self.num_lanes, dtype=bool)

    def reset_lanes(self, mask: np.ndarray) -> None:
        """Forget the episodes of the lanes where `mask`, (N,) bool, is True."""
        self._require_reset()
        self._is_start |= check_mask("mask", mask, self.num_lanes)

    def act(self, observation: Any = None, available: Any = None) -> Any:
        """Choose an arm in every lane.

        Args:
            observation: (N, ...) what the environment showed, or one observation for a single run.
            available: (N, K) or (K,) bool, the arms that can be pulled now; None means all. Only
                policies of sb3-contrib's MaskablePPO take it.

        Returns:
            (N,) int64 arms, or one `int` for a single run.

        Raises:
            ValueError: if the observation is not of the model's space, or the policy knows of no
                arms that cannot be pulled.
        """
        rng = self._require_reset()
        batch = self._check_observation(observation)
        masks = self._masks(available)
        with isolated(rng):
            actions, self._next_memory = self.policy.predict(
                batch,
                state=self._memory,
                episode_start=self._is_start,
                deterministic=self.deterministic,
                **masks,
            )
        if not self.deterministic and self.exploration_rate > 0.0:
            actions = self._explore(rng, actions)
        actions = actions.astype(np.int64)
        return int(actions[0]) if self.num_envs is None else actions

    def action_probabilities(self, observation: Any = None, available: Any = None) -> np.ndarray:
        """Return the law of the next `act`, (N, K) or (K,), without moving the agent.

        Args:
            observation: as for `act`.
            available: as for `act`.
        """
        self._require_reset()
        batch = self._check_observation(observation)
        masks: Any = self._masks(available)
        if self.deterministic or not hasattr(self.policy, "get_distribution"):
            with isolated(np.random.default_rng(0)):  # nothing is drawn
                state = self._memory, self._is_start, True
                best, _ = self.policy.predict(batch, *state, **masks)
            law = np.eye(self.num_arms)[best]
        else:
            law = policy_law(self.policy, batch, self._memory, self._is_start, masks)
        if not self.deterministic:
            law = self.exploration_rate / self.num_arms + (1 - self.exploration_rate) * law
        return law[0] if self.num_envs is None else law

    def posterior(self) -> Never:
        """Refuse: a trained policy holds no posterior."""
        raise TypeError("posterior must be asked of an agent with a prior, got SB3Agent.")

    def observe(self, action: Any, reward: Any, mask: np.ndarray | None = None) -> None:
        """End the step: a recurrent model keeps what it made of the last observation.

        Args:
            action: (N,) arms pulled, or one arm for a single run.
            reward: not looked at; a frozen model knows only what its observations show.
            mask: (N,) bool, the lanes to move on; None means all.
        """
        self._require_reset()
        lanes = np.ones(self.num_lanes, bool)
        if mask is not None:
            lanes = check_mask("mask", mask, self.num_lanes)
        check_actions(action, self.num_arms, self.num_envs, mask=lanes)
        if self._next_memory is None:
            return
        old = self._memory or tuple(np.zeros_like(part) for part in self._next_memory)
        self._memory = tuple(
            np.where(lanes[None, :, None], new, kept)
            for new, kept in zip(self._next_memory, old, strict=True)
        )
        self._next_memory = None
        self._is_start = self._is_start & ~lanes

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return nothing: a frozen model has no more to say of a decision."""
        return {}

    def _masks(self, available: Any) -> dict[str, np.ndarray]:
        """Return what `predict` is told beside, of the arms that can be pulled."""
        if available is None:
            return {}
        mask = check_available(available, (self.num_lanes, self.num_arms), self.num_envs)
        if "action_masks" not in signature(self.policy.predict).parameters:
            condition = "be None for a policy that knows of no masks"
            remedy = "train one with sb3_contrib.MaskablePPO"
            raise ValueError(message("available", condition, available, remedy))
        return {"action_masks": mask}

    def _explore(self, rng: np.random.Generator, actions: np.ndarray) -> np.ndarray:
        """Replace some actions by random ones, lane by lane; SB3's own DQN does all or none."""
        is_random = rng.random(self.num_lanes) < self.exploration_rate
        return np.where(is_random, rng.integers(self.num_arms, size=self.num_lanes), actions)

    def _check_observation(self, observation: Any) -> np.ndarray:
        space = self.policy.observation_space
        batch = as_array(observation)
        if batch is None:  # rows of several lengths
            batch = np.empty(0)
        shape = batch.shape
        if self.num_envs is None:
            batch = batch[None]
        if not self._is_batch(batch):
            lanes = "one" if self.num_envs is None else f"a batch of {self.num_envs}"
            raise ValueError(
                f"observation must be {lanes} from the model's observation space {space}, got "
                f"shape {shape}; "
                "make the environment with the observation mode that the model was trained on."
            )
        return batch

    def _is_batch(self, batch: np.ndarray) -> bool:
        space = self.policy.observation_space
        if batch.shape != (self.num_lanes, *(space.shape or ())):
            return False
        if isinstance(space, Discrete):
            return batch.dtype.kind in "iu" and bool(((batch >= 0) & (batch < space.n)).all())
        return batch.dtype.kind in "iuf" and bool(np.isfinite(batch).all())

    def _require_reset(self) -> np.random.Generator:
        if self._rng is None:
            raise ResetNeeded("call SB3Agent.reset() before using the agent.")
        return self._rng


def saved_model(
    problem: BanditProblem, *, path: str | Path, deterministic: bool = False
) -> SB3Agent:
    """Build a trained agent as experiments do: `{"agent": "agents.sb3:saved_model", "path": ...}`.

    Whether the file is a model, of this number of arms, is seen before any of it is unpickled.

    Args:
        problem: the problem to play, to see that the number of arms fits.
        path: the file that `model.save` wrote.
        deterministic: as for `SB3Agent`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is no model, or one that was trained on another number of arms.
    """
    check_problem(problem)
    with reading(path):
        found = stated_num_arms(read_settings(path))
    if found != problem.num_arms:
        raise ValueError(
            f"path must lead to a model whose action space has {problem.num_arms} arms, "
            f"got {found} in {str(path)!r}."
        )
    return SB3Agent.load(path, deterministic=deterministic)
