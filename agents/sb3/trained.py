"""A trained Stable-Baselines3 model, frozen, as an act/observe agent.

Such an agent was trained across instances, or on one: what it learned is in its weights and stays
as it is. Within an episode it knows only what its observation shows and, if it is recurrent, what
it remembers. Notation: K arms, N lanes.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space
from numpy.random import SeedSequence
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import load_from_zip_file, open_path
from stable_baselines3.common.vec_env import VecEnv

from agents.base.decisions import Decision
from agents.base.lanes import Lanes
from agents.base.threads import atomic
from agents.numerics.choices import check_floor, draw_arms, raise_to_floor
from agents.posteriors.weighted_draws import draw_particles
from bandit_gym.checks import as_array, check_actions, check_mask, check_object, check_path, message
from bandit_gym.problem import BanditProblem, check_problem

POLICY_SETTINGS = ("policy_class", "observation_space", "action_space", "policy_kwargs")
"""The settings of a saved model that acting needs; no others are unpickled."""

Memory = tuple[np.ndarray, ...]
"""Of a recurrent policy, (layers, N, size) each; of others, nothing."""


class SB3Agent(Lanes):
    """A trained model that plays N lanes at once and learns nothing more.

    It keeps the contract of `agents.base.Agent`, with two differences: `act` needs the observation,
    of the mode that the model was trained on, and the rewards given to `observe` are not used.
    The memory of a recurrent model moves on in `observe`, so that `act` can be asked twice.

    Args:
        model: PPO, A2C, DQN, RecurrentPPO or another SB3 model with `Discrete` actions, or the
            `policy` of one.
        deterministic: play the most probable action, or the one of highest value. Otherwise
            actions are drawn from the policy, by the agent's own generator; a DQN explores with
            its last training rate, each lane by itself.

    Attributes:
        policy: the SB3 policy.
        num_envs: N, or None for a single run.

    Raises:
        TypeError: if the model is none of SB3's, its actions are not `Discrete`, or `deterministic`
            is no bool.
        ValueError: if it was trained on the observations of a `VecNormalize`. A file does not say.
    """

    has_exact_probabilities = True
    observes_every_step = True  # of `deliver`, also where no reward arrives: memories move on

    def __init__(self, model: Any, *, deterministic: bool = False) -> None:
        policy = getattr(model, "policy", model)
        if not isinstance(policy, BasePolicy):
            remedy = "use SB3Agent.load for a path"
            raise TypeError(message("model", "be a Stable-Baselines3 model", model, remedy))
        is_alone = not hasattr(model, "get_vec_normalize_env")  # a policy, or read from a file
        normalised = None if is_alone else model.get_vec_normalize_env()
        if normalised is not None and normalised.norm_obs:
            remedy = "set norm_obs=False, for the agent shows it those of the environment"
            raise ValueError(
                message("model", "be trained on observations as they are", model, remedy)
            )
        self.policy: Any = policy
        check_object("the model's action space", policy.action_space, Discrete)
        self.deterministic = check_object("deterministic", deterministic, bool)
        self.exploration_rate = float(getattr(model, "exploration_rate", 0.0))

    @classmethod
    def load(cls, path: str | Path, *, deterministic: bool = False) -> SB3Agent:
        """Read a model that `model.save` wrote, of any algorithm.

        A model file holds pickled Python objects: load only files that you trust.

        Args:
            path: the file; its `.zip` may be left out, as in SB3.
            deterministic: as above.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is no model of SB3's, or torn.
        """
        check_path("path", path)
        try:
            model = _read_policy(path)
        except Exception as error:  # a file of another kind fails in many ways
            condition = "lead to a file that `save` of a Stable-Baselines3 model wrote"
            reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
            kind = type(error) if isinstance(error, OSError) else ValueError
            raise kind(message("path", condition, str(path), reason)) from error
        return cls(model, deterministic=deterministic)

    @property
    def num_arms(self) -> int:
        """K, the number of actions of the model."""
        return int(self.policy.action_space.n)

    def check_spaces(self, env: gym.Env | gym.vector.VectorEnv | VecEnv) -> None:
        """Raise ValueError, saying which, unless both spaces of an environment fit the model."""
        for name in ("observation_space", "action_space"):
            space = getattr(env, f"single_{name}", None) or getattr(env, name)
            expected = getattr(self.policy, name)
            if space != expected:
                title = name.replace("_", " ")
                condition = f"have the {title} that the model was trained on, {expected}"
                raise ValueError(message("env", condition, space))

    @atomic
    def reset(self, num_envs: int | None = None, seed: int | SeedSequence | None = None) -> None:
        """Forget the episodes, not the training, and prepare for `num_envs` lanes.

        Args:
            num_envs: N >= 1 lanes, or None for a single run with scalar actions.
            seed: as for every agent; None keeps the present generator.
        """
        self._start_lanes(num_envs, seed)
        self._space = batch_space(self.policy.observation_space, self.num_lanes)
        self._memory: Memory = ()  # of a recurrent policy: hidden states and cell states
        if hasattr(self.policy, "lstm_hidden_state_shape"):
            layers, _, size = self.policy.lstm_hidden_state_shape
            self._memory = tuple(np.zeros((2, layers, self.num_lanes, size), dtype=np.float32))
        self._next_memory = self._memory

    @atomic
    def reset_lanes(self, mask: np.ndarray) -> None:
        """Forget the episodes of the lanes where `mask`, (N,) bool, is True."""
        self._require_reset()
        lanes = check_mask("mask", mask, self.num_lanes)
        for part in (*self._memory, *self._next_memory):
            part[:, lanes] = 0.0

    @atomic
    def act(self, observation: Any = None, *, available: Any = None) -> Any:
        """Choose an arm in every lane.

        Args:
            observation: (N, ...) what the environment showed, or one observation for a single run.
            available: refused; a frozen model decides among all arms.

        Returns:
            (N,) int64 arms, or one `int` for a single run.

        Raises:
            TypeError: if `available` is given.
            ValueError: if the observation is not of the model's space.
        """
        self._refuse_available(available)
        probabilities, self._next_memory = self._compute_probabilities(observation)
        actions = draw_particles(self.rng, probabilities)
        return int(actions[0]) if self.num_envs is None else actions

    @atomic
    def decide(
        self, observation: Any = None, *, available: Any = None, floor: float = 0.0
    ) -> Decision:
        """Choose an arm in every lane by the probabilities that are returned with it.

        Args:
            observation: as for `act`.
            available: refused, as there.
            floor: least probability of an arm, from 0 to 1 / K; see `Agent.decide`.

        Raises:
            TypeError: as `act`.
            ValueError: as `act`, and if an arm cannot have the floor.
        """
        self._refuse_available(available)
        check_floor(floor, self.num_arms)
        probabilities, self._next_memory = self._compute_probabilities(observation)
        probabilities = raise_to_floor(probabilities, floor)
        actions = draw_arms(self.rng, probabilities)
        decision = Decision(actions, probabilities[np.arange(len(actions)), actions], probabilities)
        if self.num_envs is not None:
            return decision
        return Decision(int(actions[0]), float(decision.propensities[0]), probabilities[0])

    @atomic
    def action_probabilities(self, observation: Any = None, *, available: Any = None) -> np.ndarray:
        """Return the probabilities of the next `act`, (N, K) or (K,), without moving the agent.

        Args:
            observation: as for `act`.
            available: refused, as there.
        """
        self._refuse_available(available)
        probabilities, _ = self._compute_probabilities(observation)
        return probabilities[0] if self.num_envs is None else probabilities

    @atomic
    def observe(
        self,
        action: Any,
        reward: Any,
        mask: np.ndarray | None = None,
        *,
        observation: Any = None,
        weight: Any = None,
    ) -> None:
        """End the step: a recurrent model keeps what it made of the last observation.

        Args:
            action: (N,) arms pulled, or one arm for a single run.
            reward: not used; a frozen model knows only what its observations show.
            mask: (N,) bool, the lanes to move on; None means all.
            observation: not looked at either.
            weight: refused; a frozen model learns nothing.
        """
        self._require_reset()
        self._refuse_option("weight", weight, "which takes no weights")
        lanes = np.ones(self.num_lanes, bool)
        if mask is not None:
            lanes = check_mask("mask", mask, self.num_lanes)
        check_actions(action, self.num_arms, self.num_envs, mask=lanes)
        lanes = lanes | (np.atleast_1d(action) == -1)  # `deliver`'s, where a reward is late
        parts = zip(self._next_memory, self._memory, strict=True)
        self._memory = tuple(np.where(lanes[None, :, None], new, kept) for new, kept in parts)
        self._next_memory = self._memory

    def _compute_probabilities(self, observation: Any) -> tuple[np.ndarray, Memory]:
        """Return (N, K) probabilities of the next actions, and the memory after this step."""
        self._require_reset()
        batch = self._check_observation(observation)
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # fastest for networks of this size, and the same on any machine
        try:
            probabilities, memory = self._policy_probabilities(batch)
        finally:
            torch.set_num_threads(num_threads)
        if self.deterministic:
            return np.eye(self.num_arms)[probabilities.argmax(axis=1)], memory
        rate = self.exploration_rate
        return rate / self.num_arms + (1 - rate) * probabilities, memory

    def _policy_probabilities(self, batch: np.ndarray) -> tuple[np.ndarray, Memory]:
        """Return the policy's probabilities: 1 for one action if it has no distribution."""
        policy, memory = self.policy, self._memory
        if not hasattr(policy, "get_distribution"):
            best, _ = policy.predict(batch, deterministic=True)
            return np.eye(self.num_arms)[best], memory
        policy.set_training_mode(False)
        observation_tensor, _ = policy.obs_to_tensor(batch)
        with torch.no_grad():
            if memory:
                state = tuple(torch.tensor(part, device=policy.device) for part in memory)
                no_starts = torch.zeros(len(batch), device=policy.device)  # they are forgotten
                distribution, last = policy.get_distribution(observation_tensor, state, no_starts)
                memory = tuple(part.cpu().numpy() for part in last)
            else:
                distribution = policy.get_distribution(observation_tensor)
            probabilities = distribution.distribution.probs.cpu().numpy().astype(np.float64)
        return probabilities / probabilities.sum(axis=1, keepdims=True), memory

    def _check_observation(self, observation: Any) -> np.ndarray:
        space = self.policy.observation_space
        batch = as_array([observation] if self.num_envs is None else observation)
        shape = (self.num_lanes, *space.shape)
        kinds = "iu" if isinstance(space, Discrete) else "iuf"
        if batch is not None and batch.shape == shape and batch.dtype.kind in kinds:
            if np.isfinite(batch).all() and self._space.contains(batch.astype(space.dtype)):
                return batch
        condition = f"be {shape} finite numbers from the model's observation space {space}"
        remedy = "make the environment with the observation mode that the model was trained on"
        raise ValueError(message("observation", condition, observation, remedy))


def saved_model(
    problem: BanditProblem, *, path: str | Path, deterministic: bool = False
) -> SB3Agent:
    """Build a trained agent as experiments do: `{"agent": "agents.sb3:saved_model", "path": ...}`.

    Args:
        problem: the problem to play, to see that the number of arms fits.
        path: the file that `model.save` wrote.
        deterministic: as for `SB3Agent`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is no model, or one that was trained on another number of arms.
    """
    num_arms = check_problem(problem).num_arms
    agent = SB3Agent.load(path, deterministic=deterministic)
    if agent.num_arms != num_arms:
        condition = f"lead to a model whose action space has {num_arms} arms"
        raise ValueError(message("path", condition, str(path), f"it has {agent.num_arms}"))
    return agent


def _read_policy(path: str | Path) -> SimpleNamespace:
    """Return what acting needs of a saved model: its policy, and its exploration rate.

    To unpickle is to run what the author of a file wanted to be run, so an archive that lacks what
    makes a policy is refused before that. The policy's class is part of the file, the algorithm's
    is not.
    """
    with open_path(path, "r", suffix="zip") as file, zipfile.ZipFile(file) as archive:
        archive.getinfo("policy.pth")
        settings = json.loads(archive.read("data"))
    others = dict.fromkeys(settings.keys() - POLICY_SETTINGS)
    data, parameters, _ = load_from_zip_file(path, custom_objects=others, device="cpu")
    make, *spaces, options = (data[name] for name in POLICY_SETTINGS)  # type: ignore[index]
    policy = make(*spaces, BasePolicy._dummy_schedule, **options)
    policy.load_state_dict(parameters["policy"])
    return SimpleNamespace(policy=policy, exploration_rate=settings.get("exploration_rate", 0.0))
