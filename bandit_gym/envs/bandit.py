"""The single environment, for any problem; the registered ones in `families` are built on it."""

import inspect
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from bandit_gym.checks import check_actions
from bandit_gym.dynamics import optimal_actions, pull, shortfalls, spawn_noise, take_arms
from bandit_gym.envs.instances import check_means, draw_instances
from bandit_gym.envs.observations import PlayRecord, make_observer
from bandit_gym.envs.rendering import RENDER_MODES, LaneView, check_render_mode, render_lane
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import MAX_EPISODE_STEPS

METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}


class BanditEnv(gym.Env[Any, Any]):
    """A Bayesian bandit as a Gymnasium environment, for any problem.

    The registered environments are this class with a problem built from JSON-able arguments; use it
    directly for a likelihood or a prior of your own. Each reset draws the arms' means from the
    problem's prior; the environment itself never ends an episode, `TimeLimit` does.

    Args:
        problem: the likelihood and the prior.
        means: (K,) means of one fixed instance, the same in every episode. The prior then only
            tells agents what to believe. None draws fresh means at each reset.
        observation: "constant", "counts" or "history"; `bandit_gym.envs.observations` says what
            each shows and what can be learned from it.
        render_mode: None, "ansi" or "rgb_array".
    """

    metadata: dict[str, Any] = METADATA

    def __init__(
        self,
        problem: BanditProblem,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
    ) -> None:
        self.problem = problem
        self.render_mode = check_render_mode(render_mode)
        self._fixed_means = check_means(means, problem)
        self._observer = make_observer(observation, problem)
        self._is_recorded = observation != "constant" or render_mode is not None
        self.observation_space = self._observer.space
        self.action_space = Discrete(problem.num_arms)
        self._noise: np.random.Generator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode with fresh means and fresh noise; no option is known."""
        super().reset(seed=seed)
        means = draw_instances(self.problem, self._fixed_means, [self.np_random])[0]
        self._noise = spawn_noise(self.np_random)
        self._means = means[None]
        self._shortfalls = shortfalls(self._means)
        self._record = PlayRecord(1, self.problem.num_arms)
        self._horizon = time_limit_around(self) or MAX_EPISODE_STEPS
        info = {"means": means.copy(), "optimal_action": int(optimal_actions(means))}
        return self._observe(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pull one arm."""
        if self._noise is None:
            raise ResetNeeded("reset must be called before step.")
        actions = check_actions(action, self.problem.num_arms, None)
        rewards = pull(self.problem.likelihood, self._means, actions, self._noise.random(1))
        if self._is_recorded:
            self._record.add(actions, rewards)
        info = {"regret": float(take_arms(self._shortfalls, actions)[0])}
        return self._observe(), float(rewards[0]), False, False, info

    def render(self) -> Any:
        """Draw the episode so far: a text table (ansi) or an RGB picture, (H, W, 3) uint8."""
        if self.render_mode is None:
            gym.logger.warn("render was called on an environment made without a render_mode.")
            return None
        if self._noise is None:
            raise ResetNeeded("reset must be called before render.")
        view = LaneView.of(self.problem.likelihood, self._means, self._record, lane=0)
        return render_lane(view, self.render_mode)

    def _observe(self) -> Any:
        return self._observer.split(self._observer.encode(self._record, self._horizon))[0]


def time_limit_around(env: gym.Env[Any, Any]) -> int | None:
    """Find the `TimeLimit` through which `env` is being reset; None when there is none.

    An observation that shows the time left needs the horizon, but `gym.make` keeps it from the
    environment: it goes to the wrapper only, and the inner spec says None. So this looks for the
    wrapper among the callers of `reset`. The vector environments are told the horizon, and this
    makes the single ones show the same, whatever `max_episode_steps` they were made with.
    """
    limits = []
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is TimeLimit.reset.__code__:
            wrapper = frame.f_locals["self"]
            if wrapper.unwrapped is env:
                limits.append(wrapper._max_episode_steps)
        frame = frame.f_back
    return min(limits, default=None)
