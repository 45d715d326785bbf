"""The single environments: one contract over the registry, then what is special to each."""

import inspect
import pickle
import re
import warnings
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import (
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeAwareObservation,
    TransformReward,
)

from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.envs.families import unit_vector_covariance
from bandit_gym.envs.observations import OBSERVATIONS
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Gamma
from bandit_gym.problem import BanditProblem

HEADINGS = (
    "Description:",
    "Actions:",
    "Observation:",
    "Reward:",
    "Info:",
    "Episode end:",
    "Arguments:",
    "Version history:",
)

every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_observation = pytest.mark.parametrize("observation", OBSERVATIONS)


def play(env: gym.Env, num_steps: int, seed: int = 0) -> list[Any]:
    """Return everything an environment says in an episode of random pulls."""
    actions = np.random.default_rng(seed).integers(env.unwrapped.problem.num_arms, size=num_steps)
    return [env.step(int(action)) for action in actions]


@every_observation
@every_id
def test_env_passes_gymnasiums_check_without_a_warning(env_id: str, observation: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(
            gym.make(env_id, observation=observation, horizon=9, render_mode="ansi").unwrapped
        )


@every_observation
@every_id
def test_env_passes_sb3s_check_without_a_warning(env_id: str, observation: str) -> None:
    sb3_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sb3_checker.check_env(gym.make(env_id, observation=observation, horizon=9).unwrapped)


@every_id
def test_env_returns_plain_python_types(env_id: str) -> None:
    env = gym.make(env_id)
    observation, info = env.reset(seed=0)
    assert type(observation) is int
    assert type(info["optimal_action"]) is int
    observation, reward, terminated, truncated, info = env.step(0)
    assert [type(x) for x in (observation, reward, terminated, truncated)] == [
        int,
        float,
        bool,
        bool,
    ]
    assert type(info["regret"]) is float


@every_id
def test_info_has_exactly_the_promised_keys(env_id: str) -> None:
    env = gym.make(env_id)
    assert set(env.reset(seed=0)[1]) == {"means", "optimal_action"}
    assert set(env.step(0)[4]) == {"regret"}


@every_id
def test_regret_is_the_shortfall_of_the_pulled_mean(env_id: str) -> None:
    env = gym.make(env_id, num_arms=4)
    means = env.reset(seed=1)[1]["means"]
    regrets = [env.step(arm)[4]["regret"] for arm in range(4)]
    assert regrets == (means.max() - means).tolist()


@every_id
def test_optimal_action_has_no_regret(env_id: str) -> None:
    env = gym.make(env_id)
    _, info = env.reset(seed=2)
    assert env.step(info["optimal_action"])[4]["regret"] == 0.0


@every_id
def test_reset_draws_fresh_means_from_the_prior(env_id: str) -> None:
    env = gym.make(env_id)
    first, second = env.reset(seed=0)[1]["means"], env.reset()[1]["means"]
    assert not np.array_equal(first, second)
    assert env.unwrapped.problem.likelihood.contains(first).all()


@every_id
def test_episode_is_the_same_again_under_the_same_seed(env_id: str) -> None:
    env = gym.make(env_id, observation="counts", horizon=1000)
    runs = [(env.reset(seed=5), play(env, 20)) for _ in range(2)]
    assert data_equivalence(*runs, exact=True)


@every_id
def test_means_of_a_caller_do_not_reach_into_the_env(env_id: str) -> None:
    env = gym.make(env_id, num_arms=2)
    _, info = env.reset(seed=0)
    expected = info["means"].max() - info["means"][0]
    info["means"][:] = 0.5
    assert env.step(0)[4]["regret"] == expected


@every_id
def test_rewards_stay_those_of_the_drawn_means_when_a_caller_overwrites_them(env_id: str) -> None:
    paid = []
    for factor in (1.0, 0.01):  # a hundredth is a possible mean everywhere, and pays differently
        env = gym.make(env_id, num_arms=2)
        _, info = env.reset(seed=0)
        info["means"] *= factor
        paid.append([step[1] for step in play(env, 50)])
    assert paid[0] == paid[1]


@every_id
def test_noise_does_not_depend_on_the_arms_pulled(env_id: str) -> None:
    rewards = []
    for seed in (0, 1):  # of the actions
        env = gym.make(env_id, num_arms=3, means=[0.5, 0.5, 0.5])
        env.reset(seed=7)
        rewards.append([step[1] for step in play(env, 30, seed=seed)])
    assert rewards[0] == rewards[1]


@every_id
def test_fixed_means_are_the_instance_of_every_episode(env_id: str) -> None:
    env = gym.make(env_id, num_arms=3, means=[0.2, 0.5, 0.25])
    for _ in range(2):
        assert env.reset()[1]["means"].tolist() == [0.2, 0.5, 0.25]


def test_fixed_means_leave_the_prior_that_agents_are_told() -> None:
    prior = {"name": "beta", "alpha": 5, "beta": 5}
    env = gym.make("BernoulliBandit-v0", num_arms=2, prior=prior, means=[0.2, 0.5])
    assert env.unwrapped.problem == BanditProblem(Bernoulli(), Beta(5.0, 5.0), 2)


@every_id
def test_pickled_env_continues_identically_in_mid_episode(env_id: str) -> None:
    env = gym.make(env_id, observation="history", horizon=1000)
    env.reset(seed=3)
    play(env, 7)
    twin = pickle.loads(pickle.dumps(env))
    assert data_equivalence(play(env, 10), play(twin, 10), exact=True)
    assert data_equivalence(env.reset(), twin.reset(), exact=True)


@every_id
def test_time_limit_can_be_overridden(env_id: str) -> None:
    env = gym.make(env_id, max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@every_id
def test_env_never_ends_by_itself(env_id: str) -> None:
    env = gym.make(env_id, max_episode_steps=-1, disable_env_checker=True)
    env.reset(seed=0)
    assert not any(step[2] or step[3] for step in play(env, 1001))


@every_id
def test_wrappers_of_gymnasium_run(env_id: str) -> None:
    env = gym.make(env_id, max_episode_steps=5, disable_env_checker=True)
    env = TransformReward(NormalizeReward(RecordEpisodeStatistics(env)), lambda reward: reward + 1)
    env.reset(seed=0)
    assert play(env, 5)[-1][4]["episode"]["l"] == 5


def test_time_aware_observation_wraps_counts() -> None:
    env = TimeAwareObservation(gym.make("BernoulliBandit-v0", observation="counts", horizon=1000))
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space


@pytest.mark.parametrize(
    ("env_id", "mean", "std"),
    [
        ("BernoulliBandit-v0", 0.5, 12**-0.5),
        ("GaussianBandit-v0", 0.0, 1.0),
        ("PoissonBandit-v0", 2.0, 2.0**0.5),
        ("ExponentialBandit-v0", 1.0, 1.0),
    ],
)
def test_default_prior_has_the_documented_mean(env_id: str, mean: float, std: float) -> None:
    env = gym.make(env_id, num_arms=10_000)
    means = env.reset(seed=0)[1]["means"]
    assert abs(means.mean() - mean) < 4 * std / 10_000**0.5


def test_dependent_prior_is_the_truncated_normal_of_unit_vectors() -> None:
    prior = gym.make("DependentPriorBandit-v0", num_arms=4, arm_seed=3).unwrapped.problem.prior
    settings = prior.to_dict()
    assert settings["name"] == "truncated_multivariate_normal"
    assert settings["mean"] == 0.5
    np.testing.assert_allclose(settings["covariance"], unit_vector_covariance(4, 4, 3))


def test_unit_vector_covariance_has_the_rank_of_its_dimension() -> None:
    covariance = unit_vector_covariance(6, 6, 0)
    assert np.diag(covariance).tolist() == [1.0] * 6
    assert np.linalg.matrix_rank(covariance) == 6
    assert np.array_equal(covariance, covariance.T)


def test_arm_seed_decides_the_dependent_prior() -> None:
    problems = [
        gym.make("DependentPriorBandit-v0", arm_seed=seed).unwrapped.problem for seed in (0, 0, 1)
    ]
    assert problems[0] == problems[1] != problems[2]


def test_gaussian_std_scales_the_noise() -> None:
    rewards = []
    for std in (1.0, 3.0):
        env = gym.make("GaussianBandit-v0", num_arms=2, means=[0.0, 0.0], std=std)
        env.reset(seed=0)
        rewards.append(env.step(0)[1])
    assert rewards[1] == pytest.approx(3.0 * rewards[0])


def test_bandit_env_takes_a_problem_of_ones_own() -> None:
    problem = BanditProblem(Bernoulli(), Beta(1.0, 3.0), 5)
    env = BanditEnv(problem, observation="counts", horizon=9)
    check_env(env, skip_render_check=True)
    assert env.problem is problem
    assert BanditVectorEnv(2, problem).reset(seed=0)[1]["means"].shape == (2, 5)


@every_id
def test_class_docstring_is_a_manual_under_the_fixed_headings(env_id: str) -> None:
    lines = [line.strip() for line in inspect.getdoc(type(gym.make(env_id).unwrapped)).splitlines()]
    assert tuple(line for line in lines if line in HEADINGS) == HEADINGS


@every_id
def test_manual_describes_every_argument(env_id: str) -> None:
    cls = type(gym.make(env_id).unwrapped)
    arguments = inspect.getdoc(cls).partition("Arguments:")[2]
    for name in inspect.signature(cls).parameters:
        assert f"\n    {name}: " in arguments


@pytest.mark.parametrize("action", [-1, 10, 0.0, 1.5, "0", None, True, [0], np.array([0])])
def test_step_refuses_what_is_not_an_action_and_stays_put(action: Any) -> None:
    env = gym.make("BernoulliBandit-v0", observation="history", horizon=9).unwrapped
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    with pytest.raises(InvalidAction, match="action must"):
        env.step(action)
    assert data_equivalence(env.step(3), twin.step(3), exact=True)


@pytest.mark.parametrize("action", [np.int64(1), np.uint8(1), np.array(1), np.array(1, np.int32)])
def test_step_accepts_any_integer_scalar(action: Any) -> None:
    env = gym.make("BernoulliBandit-v0", num_arms=2, means=[0.0, 1.0]).unwrapped
    env.reset(seed=0)
    assert env.step(action)[1] == 1.0


def test_step_before_reset_is_refused() -> None:
    with pytest.raises(ResetNeeded, match="reset must be called before step"):
        gym.make("BernoulliBandit-v0").unwrapped.step(0)


def test_reset_with_a_bad_seed_leaves_the_episode_as_it_was() -> None:
    env = gym.make("BernoulliBandit-v0").unwrapped
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    with pytest.raises(ValueError, match="seed must be a non-negative integer or None, got -1."):
        env.reset(seed=-1)
    assert data_equivalence(play(env, 5), play(twin, 5), exact=True)


BAD_ARGUMENTS = [
    ({"num_arms": 1}, ValueError, "num_arms must be an integer of at least 2, got 1"),
    ({"num_arms": 10**30}, ValueError, "num_arms must be at most 1000000, got 1000"),
    ({"num_arms": 2.0}, TypeError, "num_arms must be an integer of at least 2, got 2.0"),
    ({"num_arms": True}, TypeError, "num_arms must be an integer"),
    ({"means": [0.5] * 3}, ValueError, "means must have num_arms=10 entries.*pass num_arms=3"),
    ({"means": 0.5}, TypeError, "means must be a list"),
    ({"means": [[0.5] * 10]}, TypeError, "means must be a"),
    ({"means": [0.5] * 9 + [np.nan]}, ValueError, "means must be finite"),
    ({"means": [0.5] * 9 + ["a"]}, TypeError, "means must be"),
    ({"observation": "count"}, ValueError, "observation must be one of.*'counts'"),
    ({"observation": None}, TypeError, "observation must be one of"),
    ({"observation": "counts"}, ValueError, "horizon must be given where observation is 'counts'"),
    ({"horizon": 0}, ValueError, "horizon must be a positive integer, got 0"),
    ({"horizon": 5.0}, TypeError, "horizon must be a positive integer, got 5.0"),
    ({"limit": 5}, ValueError, "got 'limit'"),
    ({"prior": {"name": "betta", "alpha": 1, "beta": 1}}, ValueError, "'beta'"),
]


BAD_RESETS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"seed": True}, TypeError, "seed must be a non-negative integer or None, got True."),
    ({"seed": 2**64}, ValueError, "seed of every lane has 64 bits, got 18446744073709551616."),
    ({"options": 5}, TypeError, "options must be a dict or None, got 5."),
    ({"options": ["means"]}, TypeError, "options must be a dict or None, got ['means']."),
    ({"options": {"means": [0.5]}}, ValueError, "means must have num_arms=2 entries, got 1"),
    ({"options": {"means": [2, 3]}}, ValueError, "means must be possible for bernoulli rewards"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_ARGUMENTS)
def test_env_refuses_bad_arguments(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gym.make("BernoulliBandit-v0", **options)


@pytest.mark.parametrize("make", [gym.make, partial(gym.make_vec, num_envs=2)])
@pytest.mark.parametrize(("arguments", "error", "message"), BAD_RESETS)
def test_reset_refuses_bad_arguments(
    make: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make("BernoulliBandit-v0", num_arms=2).reset(**arguments)


@pytest.mark.parametrize("make", [gym.make, partial(gym.make_vec, num_envs=2)])
def test_reset_warns_of_an_option_that_has_no_effect(make: Any) -> None:
    with pytest.warns(UserWarning, match="options must have no keys but 'means'.*, got 'mean'"):
        make("BernoulliBandit-v0", num_arms=2).reset(options={"mean": [0.1, 0.2]})


@pytest.mark.parametrize("make", [gym.make, partial(gym.make_vec, num_envs=2)])
def test_means_of_a_reset_are_the_instance_of_that_episode_alone(make: Any) -> None:
    env = make("BernoulliBandit-v0", num_arms=2)
    _, info = env.reset(seed=1, options={"means": [0.1, 0.2]})
    assert (info["means"] == [0.1, 0.2]).all()
    assert (env.reset()[1]["means"] != [0.1, 0.2]).all()


@pytest.mark.parametrize("make", [BanditEnv, partial(BanditVectorEnv, 2)])
@pytest.mark.parametrize("problem", [None, "bernoulli"])
def test_env_refuses_what_is_no_problem(make: Any, problem: Any) -> None:
    with pytest.raises(TypeError, match="problem must be a BanditProblem, got"):
        make(problem)


def test_draws_that_are_not_finite_are_refused() -> None:
    env = gym.make("PoissonBandit-v0", prior=Gamma(1e300, 1e-300))
    with pytest.raises(ValueError, match=re.escape("prior.sample must stay within [-1e+150,")):
        env.reset(seed=0)


def test_more_lanes_than_memory_could_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="num_envs must be at most 100000000, got 1000"):
        gym.make_vec("BernoulliBandit-v0", num_envs=10**30)


def test_env_refuses_an_unknown_render_mode() -> None:
    with pytest.raises(ValueError, match="render_mode must be one of 'ansi', 'rgb_array', 'human'"):
        BanditEnv(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), render_mode="humen")


@pytest.mark.parametrize(
    ("env_id", "mean"),
    [
        ("BernoulliBandit-v0", 1.1),
        ("DependentPriorBandit-v0", -0.1),
        ("ExponentialBandit-v0", 0.0),
        ("PoissonBandit-v0", -1.0),
    ],
)
def test_env_refuses_means_outside_the_support(env_id: str, mean: float) -> None:
    with pytest.raises(ValueError, match="means must be possible for"):
        gym.make(env_id, num_arms=2, means=[0.5, mean])


def test_dependent_prior_refuses_a_dimension_below_the_number_of_arms() -> None:
    with pytest.raises(ValueError, match="dimension must be at least num_arms=10, got 9; .*singul"):
        gym.make("DependentPriorBandit-v0", dimension=9)


def test_dependent_prior_refuses_a_dimension_that_a_prior_makes_idle() -> None:
    prior = {"name": "beta", "alpha": 1, "beta": 1}
    with pytest.raises(ValueError, match="dimension must be None where prior is given"):
        gym.make("DependentPriorBandit-v0", prior=prior, dimension=12)
