"""The environments for any problem, single and natively vectorised; `BanditEnv` has the manual.

The vector environment equals `gymnasium.vector.SyncVectorEnv` of the single one to the last bit:
observations, rewards, ends and infos, in every autoreset mode. Lane i has its own streams, seeded
as in `SyncVectorEnv`. Both play by `BanditLanes`. The single one is not lane 0 of a vector one,
whose clocks, masks and autoresets make a step take 2.4 times as long (58 µs for 24).

Notation: N lanes, M selected lanes, K arms.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from bandit_gym.checks import (
    check_actions,
    check_all,
    check_choice,
    check_integer,
    check_mask,
    check_options,
    check_parameter,
    check_plain_options,
    check_seed,
    message,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, Info, IntArray, RewardsAndInfo
from bandit_gym.envs.observations import PlayRecord, add_info, of_lane, unbatch
from bandit_gym.envs.rendering import RENDER_FPS, RENDER_MODES, render
from bandit_gym.numerics.streams import (
    MEANS,
    NOISE,
    LaneNoise,
    LaneStreams,
    Seeds,
    draw_seeds,
    spread_seeds,
)
from bandit_gym.numerics.variates import LEAST_UNIFORM
from bandit_gym.priors import Prior
from bandit_gym.problem import MAX_MEAN, BanditProblem, ContextualProblem, check_problem

LANE = np.array([0])
"""The only one of a single environment."""

METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}


class BanditLanes:
    """N lanes of a problem, one for a single environment; wrappers may change means and arms.

    Attributes:
        problem: the likelihood and the prior.
        streams: the numbers of the lanes' episodes, for wrappers that draw some too.
        features: (N, K, d) features of the arms that an agent sees now, or None.
        stds: (N, K) deviations of rewards, where these are drawn too, or None.
        reset_options: what `reset` can be reported beside a mask.
        draws_means: whether episodes are played on means from the problem's prior.
    """

    features: FloatArray | None = None
    stds: FloatArray | None = None
    has_features: ClassVar[bool] = False
    reset_options: ClassVar[tuple[str, ...]] = ("means",)

    def __init__(
        self,
        num_lanes: int,
        problem: BanditProblem,
        means: Sequence[float] | None,
        observation: str,
        horizon: int | None,
        render_mode: str | None,
    ) -> None:
        if isinstance(problem, ContextualProblem) and not self.has_features:
            condition = f"have no features for {type(self).__name__}"
            raise ValueError(message("problem", condition, problem, "bandit_gym.make takes both"))
        if self.has_features:
            given = {"means": means, "observation": observation}
            check_plain_options(given, {"means": None, "observation": "constant"})
        self.problem = check_problem(problem)
        if render_mode is not None:
            check_choice("render_mode", render_mode, RENDER_MODES)
        self.render_mode = render_mode
        self.streams = LaneStreams(num_lanes)
        self._fixed_means = check_means(means, problem)
        self.draws_means = means is None and not self.has_features
        support = problem.likelihood.support
        self._record = PlayRecord(num_lanes, problem.num_arms, observation, support, horizon)
        self._is_recorded = observation != "constant" or render_mode is not None
        self._has_begun = False
        self._means = np.zeros((num_lanes, problem.num_arms))
        self._gaps = self._means.copy()
        if hasattr(problem.prior, "sample_with_stds"):
            self.stds = np.ones((num_lanes, problem.num_arms))
        self._set_observation_space(self._record.space)

    @property
    def means(self) -> FloatArray:
        """(N, K) true means now; a copy."""
        return self._means.copy()

    @property
    def played_means(self) -> FloatArray:
        """(N, K) true means that the last pulls were played on; a copy."""
        return self._means.copy()

    def set_means(self, means: FloatArray) -> None:
        """Change the (N, K) means; for wrappers."""
        self._means, self._gaps = means.copy(), compute_gaps(means)

    @property
    def parameters(self) -> FloatArray:
        """(N, P) what the prior is of and means follow from, here they themselves; a copy."""
        return self.means

    def set_parameters(self, parameters: FloatArray) -> None:
        """Change the (N, P) parameters, and so the means; for wrappers."""
        self.set_means(parameters)

    def parameter_support(self) -> FloatArray:
        """Return the (P, 2) lowest and highest value of each parameter."""
        return self.problem.arm_support()

    def check_can_step(self) -> None:
        """Refuse a step before the first reset."""
        if not self._has_begun:
            raise ResetNeeded("reset must be called before step.")

    def _set_observation_space(self, space: Space[Any]) -> None:
        self.observation_space = space

    def _start_episodes(self, lanes: IntArray, instance: FloatArray | None) -> IntArray:
        """Start episodes in the (M,) lanes, on fresh means or on (K,) given ones; return the best.

        Returns:
            (M,) best arms.
        """
        self.streams.advance(lanes)
        means = self._draw_means(lanes, self._fixed_means if instance is None else instance)
        self._means[lanes], self._gaps[lanes] = means, compute_gaps(means)
        if self._is_recorded:
            self._record.clear(lanes)
        return means.argmax(axis=-1)  # the first of several

    def _draw_means(self, lanes: IntArray, instance: FloatArray | None) -> FloatArray:
        """Return the (M, K) means with which episodes of the (M,) lanes begin.

        Built-in priors of independent arms make them of the lanes' numbers, arm k's of number k.
        Any other draws from a generator at the beginning of the lane's stream; one whose draws cost
        more one by one may offer `sample_each(rngs)`, equal to the last bit.
        """
        if instance is not None and self.stds is None:
            return np.tile(instance, (len(lanes), 1))
        prior: Any = self.problem.prior
        num_arms = self.problem.num_arms
        if self.stds is not None:
            rngs = self.streams.generators(MEANS, lanes)
            draws = [prior.sample_with_stds(rng, (num_arms,)) for rng in rngs]
            means, self.stds[lanes] = np.array(draws).swapaxes(0, 1)
        elif self.problem.offers("quantile"):
            uniforms = self.streams.uniforms(MEANS, lanes, np.zeros_like(lanes), num_arms)
            means = prior.quantile(np.maximum(uniforms, LEAST_UNIFORM).T)
        elif self.problem.offers("sample_each"):
            means = np.array(prior.sample_each(self.streams.generators(MEANS, lanes)), np.float64)
        else:
            rngs = self.streams.generators(MEANS, lanes)
            means = np.stack([draw_means(prior, rng, num_arms) for rng in rngs])
            likelihood: Any = self.problem.likelihood
            condition = f"draw means that {likelihood.name} rewards can have"
            check_all("prior.sample", likelihood.contains(means), condition, means)
        check_size("prior.sample", means)
        return means if instance is None else np.tile(instance, (len(lanes), 1))

    def _pull_arms(self, actions: IntArray, uniforms: FloatArray) -> RewardsAndInfo:
        """Return the (N,) rewards of a pull in each lane, and what a step reports of it."""
        stds = [] if self.stds is None else [take_arms(self.stds, actions)]
        rewards = self._pay(take_arms(self._means, actions), uniforms, *stds)
        regrets = take_arms(self._gaps, actions)
        if self._is_recorded:
            self._record.add(actions, rewards, regrets)
        return rewards, {"regret": regrets}

    def _pay(self, means: FloatArray, uniforms: FloatArray, *stds: FloatArray) -> FloatArray:
        """Return the (N,) rewards of arms of these means, and deviations if they are drawn."""
        return self.problem.likelihood.sample(means, uniforms, *stds)

    def _report_stds(self) -> dict[str, FloatArray]:
        """Return what `reset` reports of (N, K) deviations."""
        return {} if self.stds is None else {"stds": self.stds}

    def _observe(self) -> NDArray[Any]:
        """Return what an agent sees in each lane."""
        return self._record.observe()

    def render(self) -> Any:
        """Draw every lane's episode so far, each frame as the single environment draws it."""
        record = self._record if self._has_begun else None
        return render(self.render_mode, self.problem.likelihood, self._means, record)


class BanditEnv(BanditLanes, gym.Env[Any, Any]):
    """A Bayesian bandit: K arms whose unknown means are drawn from a prior that the agent is given.

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
        - "counts": Box(0, 1, (2K + 1,)), each arm's pulls / horizon, each arm's scaled average
          reward so far, and the time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, scaled reward, time left.

        `bandit_gym.envs.observations` says what can be learned from each, and how rewards that may
        leave [0, 1] are scaled.

    Reward:
        Of the problem's likelihood, with the mean of the pulled arm.

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`; and `stds`, the (K,)
        deviations of rewards, where the agent does not know them. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Never terminated. An environment made by its id is truncated after 1,000 pulls, or the
        `max_episode_steps` of `gym.make`; a `BanditEnv` made directly never is.

    Arguments:
        problem: the likelihood and the prior. The ids take `num_arms`, K >= 2, and `prior` in its
            place: a dict like `{"name": "beta", "alpha": 5, "beta": 5}`, an object of
            `bandit_gym.priors`, or None for the default of the id.
        means: list of K true means, the same in every episode, while agents are still given the
            prior. None draws them from the prior at each reset, as unknown deviations always are.
        observation: "constant", "counts" or "history".
        horizon: pulls after which the time left, which "counts" and "history" show, is 0. None is
            the time limit of `gym.make`; a `BanditEnv` made directly has none.
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
        super().__init__(1, problem, means, observation, horizon, render_mode)
        self.action_space = Discrete(problem.num_arms)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Start an episode with fresh noise and fresh means, or those of `options["means"]`.

        Both come from `bandit_gym.numerics.streams`. The seed also seeds `np_random`, which this
        class does not use.
        """
        seed = check_seed("seed", seed)
        known = check_options(options, self.reset_options)
        given_means = check_means(known.get("means"), self.problem)
        if seed is not None or not self._has_begun:
            super().reset(seed=draw_seeds(1)[0] if seed is None else seed)
            self.streams.seed(LANE, [self.np_random_seed])
        best = self._start_episodes(LANE, given_means)
        [self._noise] = self.streams.generators(NOISE, LANE)
        self._has_begun = True
        info = {"means": self._means[0].copy(), "optimal_action": int(best[0])}
        info |= {name: stds[0].copy() for name, stds in self._report_stds().items()}
        return unbatch(self._observe())[0], info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Pull one arm."""
        self.check_can_step()
        actions = check_actions(action, self.problem.num_arms, None)
        rewards, reported = self._pull_arms(actions, self._noise.random(1))
        info = {"regret": float(reported.pop("regret")[0])}  # alone as a rule, without a loop
        if reported:
            info |= of_lane(reported)
        return unbatch(self._observe())[0], float(rewards[0]), False, False, info

    def render(self) -> Any:
        """Draw the episode so far: a text (ansi) or an RGB picture, (H, W, 3) uint8."""
        drawn = super().render()
        return drawn and drawn[0]


class BanditVectorEnv(BanditLanes, VectorEnv[Any, Any, Any]):
    """N lanes of one problem; the single environment of the same name is the manual.

    `reset` takes a seed (lane i gets seed + i), a list of N seeds (None goes on with the lane's
    stream) or None, and `options={"reset_mask": mask}` to reset some lanes only. The time limit is
    part of this class, because `gym.make_vec` puts no `TimeLimit` around native environments.

    Args:
        num_envs: N.
        problem: the likelihood and the prior, the same in all lanes.
        means: (K,) means of one fixed instance for all lanes; None draws them at each reset.
        observation: "constant", "counts" or "history".
        horizon: pulls until the time left, which "counts" and "history" show, is 0; None means
            `max_episode_steps`.
        render_mode: None, "ansi" or "rgb_array", for which `render` returns a tuple of one frame
            per lane.
        max_episode_steps: pulls after which an episode is truncated; None, 0 and -1 mean never.
        autoreset_mode: an `AutoresetMode` or its value, "NextStep", "SameStep" or "Disabled".
    """

    def __init__(
        self,
        num_envs: int,
        problem: BanditProblem,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        horizon: int | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = check_integer("num_envs", num_envs, minimum=1)
        modes = [mode.value for mode in AutoresetMode]
        named = getattr(autoreset_mode, "value", autoreset_mode)
        self._autoreset_mode = AutoresetMode(check_choice("autoreset_mode", named, modes))
        self.metadata = METADATA | {"autoreset_mode": self._autoreset_mode}
        limit = -1 if max_episode_steps is None else max_episode_steps
        limit = check_integer("max_episode_steps", limit, minimum=-1)
        self.max_episode_steps = limit if limit > 0 else None
        horizon = self.max_episode_steps if horizon is None else horizon
        super().__init__(self.num_envs, problem, means, observation, horizon, render_mode)
        self.single_action_space = Discrete(problem.num_arms)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._noise = LaneNoise(self.streams, self.max_episode_steps)
        self._steps = np.zeros(self.num_envs, dtype=np.int64)
        self._waiting: BoolArray | None = None  # lanes that ended and wait for a reset, if any do

    def _set_observation_space(self, space: Space[Any]) -> None:
        self.single_observation_space = space
        self.observation_space = batch_space(space, self.num_envs)

    def reset(  # type: ignore[override]  # lists of seeds, as SyncVectorEnv takes them
        self, *, seed: Seeds = None, options: Info | None = None
    ) -> tuple[np.ndarray, Info]:
        """Start new episodes in all lanes, or in those of `options["reset_mask"]`, (N,) bool.

        They are played on fresh means, or on the (K,) of `options["means"]`.
        """
        known = check_options(options, [*self.reset_options, "reset_mask"])
        mask = self._check_reset_mask(known)
        given_means = check_means(known.get("means"), self.problem)
        self._seed_lanes(mask, seed)
        info = self._restart(mask, {}, given_means)
        return self._observe(), info

    def step(self, actions: Any) -> tuple[np.ndarray, FloatArray, BoolArray, BoolArray, Info]:
        """Pull one arm per lane: (N,) actions, ignored where this step is the lane's autoreset."""
        self.check_can_step()
        restarted = self._waiting
        played = None if restarted is None else ~restarted
        actions = check_actions(actions, self.problem.num_arms, self.num_envs, mask=played)
        self._steps += 1
        rewards, reported = self._pull_arms(actions, self._noise.draw_uniforms())
        if restarted is None:
            masks = np.ones((len(reported), self.num_envs), dtype=np.bool_)
            info = reported | {f"_{name}": mask for name, mask in zip(reported, masks, strict=True)}
        else:
            info = self._restart(restarted, add_info({}, ~restarted, reported))
            rewards[restarted] = 0.0
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        truncated = self._steps >= (self.max_episode_steps or np.inf)
        if truncated.any():
            if self._autoreset_mode is AutoresetMode.SAME_STEP:
                info = self._end_in_same_step(truncated, reported)
            else:
                self._waiting = truncated.copy()
        return self._observe(), rewards, terminated, truncated, info

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The lanes' seeds; none before the first reset."""
        return tuple(self.streams.seeds.tolist()) if self._has_begun else ()

    def restarts_next(self) -> BoolArray:
        """Return (N,) True for the lanes that have ended, and restart in the next step."""
        return np.zeros(self.num_envs, np.bool_) if self._waiting is None else self._waiting.copy()

    def check_can_step(self) -> None:
        """Refuse a step before the first reset, and one of ended lanes that wait for theirs."""
        super().check_can_step()
        if self._waiting is not None and self._autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(
                "reset must be called for ended lanes before step, got ended lanes "
                f"{np.flatnonzero(self._waiting).tolist()}; "
                "pass options={'reset_mask': terminated | truncated}."
            )

    def _restart(self, mask: BoolArray, info: Info, means: FloatArray | None = None) -> Info:
        """Start new episodes in the lanes of the mask, none of which waits any longer.

        Returns:
            `info`, which reports of them too.
        """
        lanes = np.flatnonzero(mask)
        actions = np.zeros(self.num_envs, dtype=np.int64)
        actions[lanes] = self._start_episodes(lanes, means)
        self._noise.restart(lanes)
        self._steps[lanes] = 0
        if self._waiting is not None:
            waiting = self._waiting & ~mask
            self._waiting = waiting if waiting.any() else None
        truth = {"means": self._means, "optimal_action": actions, **self._report_stds()}
        return add_info(info, mask, truth)

    def _end_in_same_step(self, truncated: BoolArray, reported: Mapping[str, np.ndarray]) -> Info:
        final_obs = np.full(self.num_envs, None, dtype=object)
        observations = unbatch(self._observe())
        for lane in np.flatnonzero(truncated):
            final_obs[lane] = observations[lane]
        return {
            "final_obs": final_obs,
            "_final_obs": truncated.copy(),
            "final_info": add_info({}, truncated, reported),
            "_final_info": truncated.copy(),
            **self._restart(truncated, add_info({}, ~truncated, reported)),
        }

    def _seed_lanes(self, mask: BoolArray, seed: Seeds) -> None:
        """Give a seed to the lanes of the mask for which there is one, or which have none yet."""
        if seed is None and self._has_begun:
            return
        seeds = spread_seeds(seed, self.num_envs)
        if not self._has_begun:
            fresh = draw_seeds(self.num_envs)
            seeds = [new if old is None else old for old, new in zip(seeds, fresh, strict=True)]
        lanes = np.flatnonzero(mask).tolist()
        given = {lane: seed for lane in lanes if (seed := seeds[lane]) is not None}
        self.streams.seed(np.array([*given], dtype=np.int64), [*given.values()])
        self._has_begun = True

    def _check_reset_mask(self, options: Mapping[str, Any]) -> BoolArray:
        # The mask is read, not popped: wrappers such as RecordEpisodeStatistics read it after us.
        mask = np.ones(self.num_envs, dtype=np.bool_)
        if "reset_mask" in options:
            mask = check_mask("options['reset_mask']", options["reset_mask"], self.num_envs)
        if not mask.any():
            raise ValueError(f"options['reset_mask'] must be True in some lane, got {mask!r}.")
        if not (self._has_begun or mask.all()):
            raise ResetNeeded("reset must be called for all lanes before it is for some.")
        return mask


# -- Instances: the means of an episode's arms, drawn or given -------------------------------------


def draw_means(prior: Prior, rng: np.random.Generator, num_arms: int) -> FloatArray:
    """Draw one instance, the (K,) means of its arms, from the prior."""
    return np.array(prior.sample(rng, (num_arms,)), dtype=np.float64)


def take_arms(table: FloatArray, actions: IntArray) -> FloatArray:
    """Pick the (N,) entries of the pulled arms from an (N, K) table.

    The flat index makes this twice as fast as `table[arange(N), actions]` at N = 2,000.
    """
    return table.take(np.arange(0, table.size, table.shape[1]) + actions)


def compute_gaps(means: FloatArray) -> FloatArray:
    """Compute each arm's pseudo-regret, how far it falls short of the best: (N, K)."""
    return means.max(axis=-1, keepdims=True) - means  # type: ignore[no-any-return]


def check_means(means: Any, problem: BanditProblem) -> FloatArray | None:
    """Return the means of a fixed instance as a (K,) array, or None."""
    if means is None:
        return None
    checked = check_parameter("means", means)
    if isinstance(checked, float):
        raise TypeError(message("means", "be a list of one number per arm", means))
    values = np.array(checked)
    if len(values) != problem.num_arms:
        condition = f"have num_arms={problem.num_arms} entries"
        remedy = f"pass num_arms={len(values)} too"
        raise ValueError(message("means", condition, len(values), remedy))
    if not problem.likelihood.contains(values).all():
        interval = "from {:g} to {:g}".format(*problem.likelihood.support)
        condition = f"be possible for {problem.likelihood.name} rewards, {interval}"
        raise ValueError(message("means", condition, means))
    check_size("means", values)
    return values


def check_size(name: str, means: FloatArray) -> None:
    """Refuse (..., K) means that are NaN, infinite or so large that rewards would overflow."""
    condition = f"stay within [{-MAX_MEAN:g}, {MAX_MEAN:g}]"
    check_all(name, np.abs(means) <= MAX_MEAN, condition, means)
