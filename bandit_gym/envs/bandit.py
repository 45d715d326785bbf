"""The single environment, for any problem, and the manual of all registered ones."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete

from bandit_gym.checks import check_actions, check_options, check_seed
from bandit_gym.envs.dynamics import (
    Changeable,
    check_means,
    draw_instances,
    optimal_actions,
    pull,
    shortfalls,
    take_arms,
)
from bandit_gym.envs.observations import PlayRecord, make_observer, split
from bandit_gym.envs.rendering import RENDER_FPS, RENDER_MODES, check_render_mode, render
from bandit_gym.numerics.streams import NOISE, LaneStreams, draw_seeds
from bandit_gym.problem import BanditProblem, check_problem
from bandit_gym.typing import FloatArray

LANE = np.array([0])
"""The only one."""

METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}


class BanditEnv(gym.Env[Any, Any], Changeable):
    """A Bayesian bandit: K arms whose unknown means are drawn from a prior that the agent is told.

    Description:
        Every pull pays a random reward with the mean of its arm. Each reset draws the K means from
        the prior of `env.unwrapped.problem`. The aim is to lose little to the best arm while
        finding out which one that is. The registered ids build the problem from JSON-able
        arguments; use this class for a likelihood or a prior of your own.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, scaled means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, scaled reward, time left.

        `bandit_gym.envs.observations` says what can be learned from each, and how rewards that may
        leave [0, 1] are scaled.

    Reward:
        Of the problem's likelihood, with the mean of the pulled arm.

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Truncated after 1,000 pulls, or the `max_episode_steps` of `gym.make`; never terminated.

    Arguments:
        problem: the likelihood and the prior. The ids take `num_arms`, K >= 2, and `prior` in its
            place: a dict like `{"name": "beta", "alpha": 5, "beta": 5}`, an object of
            `bandit_gym.priors`, or None for the default of the id.
        means: list of K true means, the same in every episode, while the prior goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        horizon: pulls over which the time left that "counts" and "history" show falls to 0; they
            need it, since `gym.make` keeps `max_episode_steps` from the environment.
        render_mode: None, "ansi" (text) or "rgb_array" (picture); both show the true means.

    Version history:
        v0: first version.
    """

    metadata: dict[str, Any] = METADATA

    def __init__(
        self,
        problem: BanditProblem,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        horizon: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.problem = check_problem(problem)
        self.render_mode = check_render_mode(render_mode)
        self._fixed_means = check_means(means, problem)
        self._observer = make_observer(observation, problem, horizon)
        self._is_recorded = observation != "constant" or render_mode is not None
        self.observation_space = self._observer.space
        self.action_space = Discrete(problem.num_arms)
        self._streams = LaneStreams(1)
        self._noise: np.random.Generator | None = None
        self._means: FloatArray = np.zeros((1, problem.num_arms))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode with fresh noise and fresh means, or those of `options["means"]`.

        They are those of `bandit_gym.numerics.streams`. `np_random` is seeded too, for others.
        """
        seed = check_seed("seed", seed)
        asked = check_means(check_options(options, ["means"]).get("means"), self.problem)
        if seed is not None or self._noise is None:
            super().reset(seed=draw_seeds(1)[0] if seed is None else seed)
            self._streams.seed(LANE, [self.np_random_seed])
        self._streams.advance(LANE)
        return self._begin(self._fixed_means if asked is None else asked)

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
        """Draw the episode so far: a text (ansi) or an RGB picture, (H, W, 3) uint8."""
        record = None if self._noise is None else self._record
        drawn = render(self.render_mode, self.problem.likelihood, self._means, record)
        return drawn and drawn[0]

    def _begin(self, instance: FloatArray | None) -> tuple[Any, dict[str, Any]]:
        means = draw_instances(self.problem, instance, self._streams, LANE)[0]
        [self._noise] = self._streams.generators(NOISE, LANE)
        self._means = means[None]
        self._shortfalls = shortfalls(self._means)
        self._record = PlayRecord(1, self.problem.num_arms, self._observer)
        info = {"means": means.copy(), "optimal_action": int(optimal_actions(means))}
        return self._observe(), info

    def _observe(self) -> Any:
        return split(self._record.observe())[0]
