"""Bad calls over the public surface: each is refused in one sentence with these words.

What is refused in the middle of a run, and must change nothing, stands in the contract of its
family; wrong priors and likelihoods of users in `test_users_priors.py`.
"""

import re
from functools import partial
from itertools import product

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from ensemble import Ensemble
from geometric import Geometric
from gymnasium.error import NameNotFound
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from gymnasium.wrappers.vector import DictInfoToList, TransformReward
from refusals import check_refusals
from stub_agents import Constant
from surface import make_env, started
from wrapped_envs import make_env as make_wrapped

import bandit_gym as bg
from agents import BayesUCB, UniformRandom, make_agent
from bandit_gym.in_context import in_context_dataset
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson, likelihood_from_dict
from bandit_gym.priors import (
    Beta,
    Gamma,
    HierarchicalBeta,
    Mixture,
    Normal,
    PerArm,
    TruncatedNormal,
    make_prior,
    prior_from_dict,
    spike_and_slab,
)
from bandit_gym.priors import TruncatedMultivariateNormal as Joint
from bandit_gym.problem import BanditProblem, ContextualProblem, problem_from_dict
from bandit_gym.results import load_results
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import BatchedFeedback, BinaryReward, DelayedReward, Drift, wrap

ENV = "bandit_gym:BernoulliBandit-v0"
PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
BETA = {"name": "beta", "alpha": 1, "beta": 2}
MIXTURE = {"name": "mixture", "components": [BETA], "weights": [1.0]}
PRIOR = {"name": "gamma", "shape": 2, "rate": 1}
GEOMETRIC = {"name": "geometric:Geometric"}
COVARIANCE = [[1.0, 0.5], [0.5, 1.0]]
REFUSALS = (TypeError, ValueError)


def refused(error, text):
    return pytest.raises(error, match=text)


OPTIONS = [
    ({"num_arms": 1}, ValueError, "num_arms must be an integer of at least 2, got 1"),
    ({"num_arms": 2.0}, TypeError, "num_arms must be an integer of at least 2, got 2.0"),
    ({"means": [0.5] * 3}, ValueError, "means must have num_arms=10 entries", "pass num_arms=3"),
    ({"means": 0.5}, TypeError, "means must be a list"),
    ({"means": [0.5] * 9 + [np.nan]}, ValueError, "means must be finite"),
    ({"means": [0.5] * 9 + ["a"]}, TypeError, "means must be"),
    ({"means": [0.5] * 9 + [1.1]}, ValueError, "means must be possible for"),
    ({"observation": "count"}, ValueError, "observation must be one of", "'counts'"),
    ({"horizon": 0}, ValueError, "horizon must be a positive integer, got 0"),
    ({"render_mode": "ascii"}, ValueError, "render_mode must be one of 'ansi', 'rgb_array'"),
    ({"num_arm": 5}, TypeError, "the nearest known one is 'num_arms'"),
    ({"prior": BETA | {"name": "betta"}}, ValueError, "nearest known one is 'beta'"),
]


@pytest.mark.filterwarnings("ignore:.*render")
def test_options_of_any_environment():
    for make in (bg.make, bg.make_vec):
        check_refusals(lambda options, make=make: make(ENV, **options), OPTIONS)


ENDLESS_COUNTS = {"observation": "counts", "max_episode_steps": -1}
ENVIRONMENTS = [
    ("Exponential", {"num_arms": 2, "means": [0.5, 0.0]}, "means must be possible for"),
    ("Bernoulli", {"num_arms": 99, "means": [2] * 99}, "from 0 to 1, got [2, ", "2, ...."),
    ("DependentPrior", {"dimension": 9}, "dimension must be an integer of at least 10, got 9"),
    ("DependentPrior", {"dimension": 12, "prior": BETA}, "dimension must be None where prior is"),
    ("Bernoulli", ENDLESS_COUNTS, "horizon must be", "got None; it is the time limit"),
    ("Gaussian", {"std": 0.0}, "std must be a finite number above 0"),
    ("Custom", {"likelihood": "poison"}, "got 'poison'; the nearest known one is 'poisson'"),
    ("Custom", {"likelihood": {"name": "gaussian", "sd": 1}}, "the nearest known one is 'std'"),
    ("Custom", {"likelihood": "no_such:Law"}, "likelihood must be importable, got 'no_such:Law'"),
    ("Custom", {"likelihood": "os:getcwd"}, "likelihood os:getcwd must be a Likelihood, got"),
    ("Custom", {"likelihood": "geometric:Geometric"}, "prior must be given for users_geometric"),
    ("Custom", {"likelihood": GEOMETRIC | {"p": 1}, "prior": PRIOR}, "no keys but 'name', got 'p'"),
]


UNKNOWN = [
    ({"frameskip": 4}, ["unexpected keyword argument 'frameskip'", "'render_mode'"]),
    ({"render_mod": "ansi"}, ["'render_mod'", "the nearest known one is 'render_mode'"]),
]


def test_an_unknown_option_is_a_type_error_which_torchrl_catches_and_in_settings_a_value_error():
    for env_id, (options, parts) in product(bg.ENV_IDS, UNKNOWN):
        for make in (gym.make, gym.make_vec):
            with refused(TypeError, parts[0]) as error:
                make(env_id, **options)
            assert parts[1] in str(error.value)
        with refused(ValueError, "options of"):
            bg.Experiment([{"env": env_id, **options}], ["random"], 10, 10)


VECTORS = [
    ({"num_envs": 0}, "num_envs must be a positive integer, got 0"),
    ({"max_episode_steps": 2.5}, "max_episode_steps must be an integer"),
    ({"autoreset_mode": "Never"}, "autoreset_mode must be one of"),
    ({"observation": "counts", "max_episode_steps": -1}, "horizon must be given where observation"),
]


RESETS = [
    ({"seed": True}, TypeError, "seed must be a non-negative integer, got True."),
    ({"seed": 2**64}, ValueError, "seed must be at most 184467440737095516"),
    ({"options": ["means"]}, TypeError, "options must be a dict or None, got ['means']."),
    ({"options": {"means": [0.5]}}, ValueError, "means must have num_arms=2 entries, got 1"),
    ({"options": {"means": [2, 3]}}, ValueError, "means must be possible for bernoulli rewards"),
    ({"options": {"mean": [0.1, 0.2]}}, UserWarning, "options must have no keys but 'means'"),
]


@pytest.mark.filterwarnings("error")
def test_reset():
    for num_envs, (arguments, error, text) in product((None, 2), RESETS):
        env = make_env(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), num_envs)
        with refused(error, re.escape(text)):
            env.reset(**arguments)


FLOATING_POINT = "must leave the interval from low to high a mass that floating point can represent"
PRIORS = [
    (Beta, (1.0, np.inf), "beta must be finite and above 0, got inf."),
    (Gamma, (1.0, [1.0, -1.0]), "rate must be finite and above 0, got [1.0,"),
    (Gamma, ([[1.0]], 1.0), "shape must be a number or a list of one number per arm"),
    (Normal, ([], 1.0), "mean must be finite, got []."),
    (Normal, ([0.0, 1.0], [1.0] * 3), "std must have as many values as mean (2), got 3."),
    (TruncatedNormal, (0.5, 0.1, [0.0, 2.0], 1.0), "low must be below high (1.0), got (0.0, 2.0)."),
    (TruncatedNormal, (0.0, 1e-9, 0.5, 1.0), FLOATING_POINT + ", got {'mean': 0.0, 'std': 1e-09, "),
    (TruncatedNormal, (0.0, 1.0, 1e6, 2e6), FLOATING_POINT),
    (Joint, (0.5, [[1.0, 0.5], [0.4, 1.0]]), "covariance must be symmetric, got [[1.0, 0.5],"),
    (Joint, (0.5, np.ones((3, 3))), "covariance must be positive definite, got array([[1."),
    (Joint, (0.5, 1.0), "covariance must be a square matrix of numbers, got 1.0."),
    (Joint, (0.5, [[1.0], [0.0, 1.0]]), "covariance must be a square matrix of numbers, got"),
    (Joint, (0.5, [[0.0]]), "covariance must be finite, with a diagonal above 0, got [[0.0]]."),
    (Joint, ([0.5] * 3, COVARIANCE), "covariance must have as many values as mean (3), got 2."),
    (Joint, (0.5, COVARIANCE, 1.0), "low must be below high (1.0), got 1.0."),
    (Joint, ([0.5, 1e9], COVARIANCE), FLOATING_POINT),
    (Mixture, ([Beta(1, 1)] * 2, [1.0]), "weights must have one entry per component, 2"),
    (Mixture, (None, [1.0]), "components must be a list with at least one entry"),
    (Mixture, ([5], [1.0]), "components must be a list of distributions that are"),
    (spike_and_slab, (0.5, 0.1, "x", 0.5), "components must be a list of distributions that are"),
    (spike_and_slab, (0.5, 0.1, Beta(1, 1), 1.5), "share must be a finite number above 0"),
    (spike_and_slab, ([0.1], 0.1, Beta(1, 1), 0.5), "spike must be a finite number"),
    (HierarchicalBeta, ([1], [1, 2]), "betas must have as many values as alphas"),
    (HierarchicalBeta, (1, [1]), "alphas must be a list with at least one entry"),
    (PerArm, ([Beta(1.0, [1.0, 2.0])],), "arms must be distributions of a single arm"),
]


def test_a_covariance_is_judged_free_of_units_and_from_a_ratio_of_1e_12_on():
    """Two arms of correlation rho have the eigenvalues 1 - rho and 1 + rho."""
    near, nearer = (np.array([[1.0, 1.0 - gap], [1.0 - gap, 1.0]]) for gap in (3e-12, 1e-12))
    for scale in (1e-12, 1.0, 1e12):
        units = np.outer([scale, 1.0], [scale, 1.0])
        box = {"low": [-scale, -1.0], "high": [scale, 1.0]}
        Joint(0.0, units * near, **box)
        with refused(ValueError, "covariance must be positive definite"):
            Joint(0.0, units * nearer, **box)


PRIOR_DICTS = [
    ({"name": "betta"}, "got 'betta'; the nearest known one is 'beta'."),
    ({"name": "beta"}, "prior must have the key 'alpha', got {'name': 'beta'}."),
    (BETA | {"bta": 1}, "got 'bta'; the nearest known one is 'beta'."),
    ({"alpha": 1}, "prior must be a dict with the key 'name', got {'alpha': 1}."),
    ("beta", "prior must be a dict with the key 'name', got 'beta'."),
    ({"name": 5}, "prior name must be one of 'beta',"),
    (BETA | {"alpha": "1"}, "alpha must be a number or a list of one number per arm"),
    ([], "arms must be a list with at least one entry, got []."),
    ([BETA, ["x"]], "arms must be a list of distributions that are independent across arms"),
    (MIXTURE | {"components": [{"name": "bta"}]}, "components of prior name must be one of 'beta'"),
    ({"name": "os:getcwd"}, "prior name must be one of 'beta',"),
]


OWN_PRIORS = [
    ("no_such_module:Law", "prior must be importable, got 'no_such_module:Law'; No module"),
    ("stub_agents:Nothing", "prior must be importable, got 'stub_agents:Nothing'; module 'stub"),
    (":Steep", "prior must read module:name, got ':Steep'."),
    ("json:dumps", "prior json:dumps must have the key 'obj', got {'name': 'json:dumps'}."),
    ({"name": "textwrap:dedent", "txt": 1}, "got 'txt'; the nearest known one is 'text'."),
    ("os:getcwd", "prior must have the methods sample and log_density, as made by os:getcwd,"),
]


GRADED = {"name": "bernoulli", "graded": True, "concentration": 3}
LIKELIHOODS = [
    ("gaussian", "likelihood must be a dict with the key 'name', got 'gaussian'."),
    ({"name": "gausian"}, "the nearest known one is 'gaussian'."),
    ({"name": 3}, "likelihood name must be one of 'bernoulli', 'exponential',"),
    ({"name": "poisson", "std": 1.0}, "must have no keys but 'name', got 'std'"),
    ({"name": "gaussian", "std": True}, "std must be a finite number above 0"),
    (GRADED | {"graded": False}, "concentration must be None without graded=True, got 3"),
    (GRADED | {"concentration": 0}, "concentration must be", "got 0"),
    (GRADED | {"graded": 1}, "graded must be True or False, got 1"),
]


IN_THE_UNIT_INTERVAL = "prior must lie in [0, 1], where the means of bernoulli rewards are, got "
NO_PRIOR = "prior must be a prior such as Normal(0, 1), or have methods sample and log_density"
PROBLEMS = [
    ((Bernoulli(), Normal(0.5, 0.1), 3), IN_THE_UNIT_INTERVAL + "Normal(mean=0.5, std=0.1); use"),
    ((Bernoulli(), TruncatedNormal(0.5, 0.1, 0.0, [1.0, 1.1, 1.0]), 3), IN_THE_UNIT_INTERVAL),
    ((Bernoulli(), Joint(0.5, COVARIANCE, high=[1.0, 2.0]), 2), IN_THE_UNIT_INTERVAL),
    ((Exponential(), Normal(1, 1), 3), "such as 'truncated_normal'"),
    ((Poisson(), TruncatedNormal(0.5, 0.1, -0.1), 3), "prior must lie in [0, inf]"),
    (
        (Bernoulli(), Beta([1, 2, 3], 1), 4),
        "prior must have 4 values in its lists of parameters, as num_arms says, got 3.",
    ),
    ((Bernoulli(), Joint(0.5, np.eye(3)), 4), "prior must have 4 values in its lists of"),
    ((Bernoulli(), PerArm([Beta(1, 1)] * 3), 4), "prior must have 4 values in its lists of"),
    *(
        ((likelihood, Beta(1, 1), 3), "likelihood must be a Likelihood, got")
        for likelihood in ("bernoulli", Bernoulli, None, {"name": "bernoulli"})
    ),
    *(((Bernoulli(), prior, 3), NO_PRIOR) for prior in ("beta", Beta, None, BETA)),
]


WHOLE, AT_LEAST_0 = "an integer of at least 0 under poisson", "a finite number of at least 0 under"
REWARDS = [
    (Bernoulli(), np.nan, "reward must be 0 or 1 under bernoulli rewards, got nan."),
    (Bernoulli(graded=True), -0.1, "reward must be a number from 0 to 1 under bernoulli"),
    (Bernoulli(graded=True), 1.1, "reward must be a number from 0 to 1 under bernoulli"),
    (Exponential(), -0.1, f"reward must be {AT_LEAST_0} exponential rewards, got -0.1."),
    (Gaussian(), -1e151, "reward must be at most 1e+150 in size, got -1e+151."),
    (Gaussian(), np.nan, "reward must be a finite number under gaussian rewards, got nan."),
    (Poisson(), -1.0, f"reward must be {WHOLE} rewards, got -1.0."),
    (Poisson(), 0.5, f"reward must be {WHOLE} rewards, got 0.5."),
    (Geometric(), 0.5, "reward must be possible under users_geometric rewards, got 0.5."),
]


def test_rewards_that_agents_observe():
    for likelihood, reward, text in REWARDS:
        agent = started(UniformRandom, BanditProblem(likelihood, TruncatedNormal(0.5, 0.1), 3))
        with refused(REFUSALS, re.escape(text)):
            agent.observe(0, reward)
        agent.reset(2, seed=0)
        with refused(REFUSALS, re.escape(text.replace("reward ", "rewards ", 1).rstrip("."))):
            agent.observe([0, 0], [1.0, reward])


LANES = [
    (
        (1, [1e301, 0]),
        "sums must be possible totals of so many gaussian rewards, got 1e+301 for arm",
    ),
    (([[0, 0], [0.5, 0]], 0.0), "counts must be whole numbers from 0 to 2**53, got 0.5 for arm 0"),
    (([1, 1, 1], 0.0), "counts must broadcast to shape (2, 2), got (3,)."),
    ((np.ma.array([1, 2], mask=[0, 1]), 0.0), "counts must be an array of numbers, got masked_arr"),
    ((1, np.ma.array([1, 2], mask=[0, 1])), "sums must be an array of numbers, got masked_array("),
    (([5], [2.0]), "counts must have an entry for each of 2 arms, got [5]."),
    (
        (pd.Series([3, 1], [1, 0]), 0.0),
        "counts must have the arms [0, 1] in this",
    ),
    ((1, pd.Series([3, 1], [2, 3])), "sums must have the arms [0, 1] in this order, got [2, 3]"),
    ((1, "x"), "sums must be an array of numbers, got 'x'."),
]


def warm_start(statistics):
    started(UniformRandom, BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), 2, *statistics)


WRAPPERS = [
    ("BatchedFeedback", {"size": 0}, "size must be a positive integer, got 0"),
    ("DelayedReward", {"delay": 1.5}, "delay must be a non-negative integer, got 1.5"),
    ("DelayedReward", {"delay": {"name": "unifrm"}}, "nearest known one is 'uniform'"),
    ("DelayedReward", {"delay": {"name": "uniform", "low": 3, "high": 2}}, "of at least 3, got 2"),
    ("DelayedReward", {"delay": 3, "observation": "counts", "horizon": 7}, "observation='const"),
    ("Drift", {}, "std, period and probability must be a number and None twice, got (None,"),
    ("Drift", {"std": 0.1, "period": 3}, "None twice, got (0.1, 3, None)"),
    ("Drift", {"std": 0.0}, "std must be a finite number above 0"),
    ("Drift", {"period": 0}, "period must be a positive integer, got 0"),
    ("BinaryReward", {"observation": "counts", "horizon": 9}, "others show rewards as they were"),
    ("Drift", {"probability": 2.0}, "probability must be a finite number above 0 and at most 1"),
]


def make_in_wrapper(name, options):
    of_env = {key: options[key] for key in ("observation", "horizon") if key in options}
    own = {key: value for key, value in options.items() if key not in of_env}
    make_wrapped(name, own, **of_env)


class Unbounded(Gaussian):
    """Has means in [0, 1], and pays any number."""

    name, support = "unbounded", (0.0, 1.0)


class Raised(VectorWrapper):
    def step(self, actions):
        observation, rewards, *others = self.env.step(actions)
        return observation, rewards + 0.5, *others


DATASETS = [
    ({"env": None}, "env must be an environment with a BanditProblem, got None"),
    ({"env": bg.make(PROBLEM).unwrapped}, "horizon must be given for an environment without"),
    (
        {"env": SyncVectorEnv([partial(gym.make, ENV, max_episode_steps=3)]), "horizon": 4},
        "horizon must be at most the time limit of the environment's episodes, got 4",
    ),
    ({"policy": "exat"}, "policy must be one of", "the nearest known one is 'exact'"),
    ({"num_episodes": 0}, "num_episodes must be a positive integer, got 0"),
    ({"env": SyncVectorEnv([lambda: DelayedReward(gym.make(ENV))])}, "env must pay each pull at"),
    ({"env": TransformReward(make_env(PROBLEM, 2), np.sqrt)}, "with a BanditProblem, got <Trans"),
    (
        {"env": Raised(make_env(PROBLEM, 2)), "policy": Constant},
        "env must pay bernoulli rewards, as its problem says, got <Raised",
    ),
]


def make_dataset(wrong):
    given = {"env": gym.make(ENV, max_episode_steps=3), "policy": "exact", "num_episodes": 1}
    return in_context_dataset(**given | {"seed": 0} | wrong)


def test_files_of_in_context_datasets(tmp_path):
    with refused(ValueError, "path must end in .npz or .parquet, got '.*data.csv'"):
        make_dataset({}).save(tmp_path / "data.csv")


LISTED = [
    ([{"name": "Drif"}], "wrapper must be one of", "the nearest known one is 'Drift'"),
    ({"name": "Drift"}, "wrappers must be a list of dicts with the key 'name'"),
    ([{"name": "Drift", "stdd": 1}], "options of Drift must have no keys but", "'std'"),
    ([{"name": "no_such_module:X"}], "wrapper must be importable, got"),
]


class Endless(gym.Env):
    """Pays nothing, and never ends."""

    observation_space = action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


def plain(**members):
    """Return a class of plain agents, in which some members are others."""
    whole = {"act": lambda self: 0, "observe": lambda self, arm, reward: None}
    return type("Plain", (), whole | members)


def draw_late(self):
    """Draw from NumPy's generator of the whole process, but for the first two acts.

    Python's is not watched beside Dask, which a test before this one may have loaded.
    """
    self.num_acts = getattr(self, "num_acts", 0) + 1
    return np.random.randint(2) if self.num_acts > 2 else 0  # noqa: NPY002


LATE = {"reset": lambda self, **given: None, "act": lambda self, observation: draw_late(self)}
DRAW = {name: lambda *given, **named: np.random.rand() for name in ("reset", "observe")}  # noqa: NPY002
DRAWERS = [plain(act=draw_late), plain(observe=DRAW["observe"]), plain(**LATE)(), plain(**DRAW)()]
SEEDED = LATE | {"reset": lambda self, seed, **given: np.random.seed(0)}  # noqa: NPY002


Continuous = type("Continuous", (Endless,), {"action_space": Box(-1.0, 1.0)})
THREE, TWO = UniformRandom(PROBLEM), UniformRandom(BanditProblem(Bernoulli(), Beta(1, 1), 2))
SHORT = gym.make("CartPole-v1", max_episode_steps=5)
SYNC = gym.make_vec(ENV, vectorization_mode="sync", num_arms=3, max_episode_steps=5)
UNLIMITED = gym.make_vec(ENV, num_arms=3, max_episode_steps=-1)
EXACT = make_agent("exact", PROBLEM)
PRICES = [
    ({"costs": [0, np.inf, 1]}, "costs must be finite, got inf"),
    ({"floor": 0.4}, "floor must be a finite number at least 0 and at most 0.333333, got 0.4"),
    ({"top": 2}, "unexpected keyword argument 'top'"),
]
ROLLOUTS = [
    ((THREE, Endless()), {}, "horizon must be given for an environment without"),
    ((TWO, SHORT), {"horizon": 6}, "at most the environment's max_episode_steps=5, got 6"),
    ((THREE, UNLIMITED), {}, "horizon must be given for an environment without"),
    ((THREE, SYNC), {"horizon": 6}, "at most the environment's max_episode_steps=5, got 6"),
    ((TWO, Endless()), {"horizon": 1}, "as many arms as the environment, 3, got 2"),
    (("exact", Endless()), {}, "agent must have the methods reset, act and obs"),
    ((plain()(), Endless()), {}, "without reset, pass its class."),
    *(((each, gym.make(ENV)), {"horizon": 4}, "the rng or seed that it is") for each in DRAWERS),
    ((plain(), Endless()), {}, "env.problem must be a BanditProblem, got None"),
    ((THREE, ENV), {}, "env must be a Gymnasium environ"),
    ((THREE, Continuous()), {"horizon": 1}, "env must have Discrete actions"),
    ((EXACT, DictInfoToList(SYNC)), {}, TypeError, "env must give infos that are dicts, got <Dict"),
    *(((EXACT, UNLIMITED), {"horizon": 2} | prices, text) for prices, text in PRICES),
    ((plain(**LATE)(), UNLIMITED), {"horizon": 2, "costs": [1] * 3}, "agent must take costs in"),
]


def test_an_agent_may_seed_the_generator_of_the_process():
    assert rollout(plain(**SEEDED)(), gym.make(ENV), seed=0, horizon=4).lengths == 4


COMPARISONS = [
    ({"values": [1, -1]}, ValueError, "values must be finite and above 0, got -1.0"),
    ({"costs": 0.5}, ValueError, "costs must be a list of one number for each arm, got 0.5"),
    ({"floor": 0.2}, ValueError, "floor must be a finite number", "at most 0.1, got 0.2"),
    ({"top": 2}, TypeError, "unexpected keyword argument 'top'"),
    ({"agents": {"a": 7}}, TypeError, "agent must be a name, a class, a function"),
    ({"env": 7}, TypeError, "env must be an id, a BanditProblem"),
    ({"workers": 2}, TypeError, "workers must be a Workers"),
    ({"agents": [lambda problem: problem]}, TypeError, "name a function"),
    ({"agents": [{"agent": "exact", "prior": lambda: None}]}, TypeError, "name a function"),
    ({"agents": [{"agent": "exact", "prior": {"name": "bta"}}]}, "nearest known one is 'beta'"),
    ({"agents": [{"agent": "exact", "prior": 5}]}, "prior must be a prior such as Normal(0, 1)"),
    ({"agents": [plain(act=None)]}, ValueError, "agent must have the methods act and observe, got"),
    ({"agents": [plain(act=lambda self: None)]}, ValueError, "an integer from 0 to 9, got None"),
    ({"agents": [plain(act=lambda self: np.random.randint(2))]}, ValueError, "the rng or seed"),  # noqa: NPY002
    ({"agents": [plain(__init__=lambda self, k: None)]}, ValueError, "a required argument: 'k'"),
    ({"out": 5}, TypeError, "out must be a path, as a string or a Path"),
]


SMALL = {"agents": ["random"], "replications": 2, "horizon": 2}


def test_folders_of_results(tmp_path):
    with refused(TypeError, "directory must be a path, as a string or a Path, got 5"):
        load_results(5)
    (tmp_path / "file").touch()
    with refused(FileExistsError, "out must be a folder, got"):
        bg.compare(**SMALL, out=tmp_path / "file")
    with pytest.raises(NotADirectoryError, match="file/below"):
        bg.compare(**SMALL, out=tmp_path / "file" / "below")


AGENTS = [
    ("exat", {}, "the nearest known one is 'exact'"),
    ("exact", {"discont": 1}, "the nearest known one is 'discount'"),
    ("exact", {"method": "grib"}, "the nearest known one is 'grid'"),
    ("exact", {"discount": True}, "above 0 and at most 1, got True"),
    ("exact", {"window": 5, "discount": 0.5}, "window must be None beside a discount, got 5"),
    ("racing_paper", {"max_samples": 0}, "max_samples must be a positive integer, got 0"),
    ("racing_paper", {"sigma": 0.0}, "sigma must be", "got 0.0"),
    ("racing_paper", {"scale": "values"}, "the nearest known one is 'value'"),
    ("racing_paper", {"threshold": "print"}, "'printed'"),
    ("racing", {"effective_samples": 0.0}, "effective_samples must be", "got 0.0"),
    ("racing", {"stopping": 0}, "stopping must be", "got 0"),
    ("racing", {"stopping": 1.5}, TypeError, "stopping must be a Paper", "integer or None, got"),
    ("racing", {"stopping": "paper"}, TypeError, "stopping must be a Paper", "or None, got"),
    ("racing", {"stopping": {"sigm": 0.1}}, "stopping must have no keys but", "'sigma'"),
    ("racing", {"stopping": {"delta": 1.0}}, "delta must be", "got 1.0"),
    ("racing", {"proposal": "refrence"}, "the nearest known one is 'reference'"),
    ("racing", {"unpulled_arms": "drop"}, "unpulled_arms must be"),
    ("racing", {"stopping": 20, "effective_samples": 50}, "effective_samples must be left out"),
    ("smc", {"num_particles": 0}, "num_particles must be a positive integer, got 0"),
    ("smc", {"num_particles": 10**12}, f"num_particles must be at most 10000000, got {10**12}."),
    ("smc", {"num_particles": [3, 4]}, "num_particles must be one number"),
    ("smc", {"move": "random walk"}, "the nearest known one is 'random-walk'"),
    ("smc", {"resampling": "x"}, "resampling must be one of 'never', 'systematic',"),
    ("greedy", {"estimate": "x"}, "estimate must be one of 'average', 'posterior', got 'x'"),
    ("epsilon_greedy", {"epsilon": 2}, "epsilon must be a finite number at least 0 and at most 1"),
    ("ucb1", {"scale": -1}, "scale must be a finite number above 0, got -1"),
    ("kl_ucb", {"c": -1}, "c must be a finite number at least 0, got -1"),
    ("bayes_ucb", {"prior": "x"}, "prior name must be one of 'beta'"),
    ("top_two", {"beta": 2}, "beta must be a finite number above 0 and below 1, got 2"),
    ("knowledge_gradient", {"variant": "x"}, "variant must be one of 'kg', 'kg*', got 'x'"),
    ("information_directed", {"gain": "x"}, "gain must be one of 'variance', 'information'"),
    ("discounted_gittins", {"discount": 1}, "discount must be a finite number above 0 and at most"),
    ("optimistic_gittins", {"pace": -1}, "pace must be a finite number at least 0, got -1"),
    ("information_relaxation", {"penalty": "x"}, "penalty must be one of 'fh', 'v_zero',"),
    ("sliding_window", {"window": 0}, "window must be a positive integer, got 0"),
    ("sliding_window", {"rule": "ucb1"}, "sliding_window options must have no keys but"),
]
NORMAL = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)
COUNTED = BanditProblem(Poisson(), Gamma(2.0, 2.0), 2)
UNLIKE = [
    BanditProblem(Bernoulli(), prior, 2)
    for prior in (Joint(0.5, COVARIANCE), HierarchicalBeta([1, 2], [2, 1]))
]
OF_LIKE_ARMS = "discounted_gittins", "information_relaxation"
RULES = [
    ("discounted_gittins", NORMAL, {}, "must be Bernoulli() for DiscountedGittins"),
    ("information_directed", NORMAL, {"gain": "information"}, "Bernoulli", "gain='variance'"),
    ("information_relaxation", COUNTED, {}, "must be Bernoulli or Gaussian"),
    ("knowledge_gradient", COUNTED, {}, "must be Bernoulli or Gaussian for KnowledgeGradient"),
    *((name, of, {}, "have independent arms") for name, of in product(OF_LIKE_ARMS, UNLIKE)),
]
LINEAR = ContextualProblem(Gaussian(0.5), Normal(0.0, 1.0), 4, 3)
LOGISTIC = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 4, 3)
GEOMETRIC_ARMS = BanditProblem(Geometric(), Gamma(2.0, 1.5), 4)
WITHOUT_FEATURES = (
    *("ucb1", "kl_ucb", "moss", "ucb_tuned", "information_relaxation", "knowledge_gradient"),
    *("discounted_gittins", "finite_horizon_gittins", "optimistic_gittins"),
)
OF_PROBLEMS = [
    *RULES,
    ("exact", LOGISTIC, {}, "an exact posterior, got", "RacingThompson takes any"),
    ("exact", LINEAR, {"method": "grid"}, "method must be one of 'auto', 'conjugate', got 'grid'"),
    ("exact", LINEAR, {"discount": 0}, "discount must be a finite number above 0 and at most 1"),
    ("exact", LINEAR, {"window": 9, "discount": 0.9}, "window must be None beside a discount"),
    ("smc", LINEAR, {"discount": 0.9}, "be one that can follow a discount or a window"),
    ("exact", LINEAR, {"prior": "reference"}, "prior name must be one of", "got 'reference'"),
    ("greedy", LINEAR, {"estimate": "average"}, "estimate must be 'posterior' where arms have"),
    ("racing", LINEAR, {"stopping": 9}, "stopping must be None where arms have features, got 9"),
    ("racing_paper", GEOMETRIC_ARMS, {}, "proposal must be 'matched'"),
    ("racing_paper", LINEAR, {}, "stopping must be None where arms have features, got Paper"),
    ("laplace", PROBLEM, {}, "problem must be a ContextualProblem for LaplaceThompson"),
    ("lin_ucb", PROBLEM, {}, "problem must be a ContextualProblem for LinUCB"),
    ("thompson", PROBLEM, {"posterior": "laplace"}, "posterior must be one of 'exact', 'smc'"),
    ("lin_ucb", LINEAR, {"ridge": 0}, "ridge must be a finite number above 0, got 0"),
    ("optimal", LINEAR, {"horizon": 9}, "problem must have no features for BayesOptimal"),
    *((name, LINEAR, {}, "problem must have no features for") for name in WITHOUT_FEATURES),
]
ARMS = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 3)
TIED = BanditProblem(Bernoulli(), Joint(0.5, 0.05 * np.eye(3) + 0.02), 3)
POSTERIORS = [
    ("rasing", "posterior must be one of", "the nearest known one is 'racing'"),
    ({"name": "smc", "num_particle": 5}, "'num_particles'"),
    ("ensemble:Ensembel", "posterior must be importable, got 'ensemble:Ensembel'"),
    ("builtins:repr", "or a Posterior with update and sample, got 'BanditProblem"),
    (3, "posterior must be a name, a dict with the key 'name', or a Posterior with"),
    (Ensemble(TIED), "posterior must be of the agent's own problem"),
    (object(), "or a Posterior with update and sample, got <object"),
    ({"size": 3}, "posterior must be a dict with the key 'name'"),
]
THREE_LAWS, OTHER_ARMS = PerArm([Beta(1, 1)] * 3), "arms must be one for each of 4 arms, got 3"
NO_ARMS = {"likelihood": {"name": "bernoulli"}, "prior": BETA}
WIDE = type("Own", (Mixture,), {"to_dict": property()})([Beta(1.0, 1.0)], [1.0])
RESTARTING = gym.wrappers.TimeLimit(gym.wrappers.Autoreset(make_env(PROBLEM)), 9)
AROUND = BatchedFeedback, DelayedReward, partial(Drift, std=0.1)
WORLDS, MAKERS = (make_env(PROBLEM), make_env(PROBLEM, 2)), (bg.make, bg.make_vec)


def pay_binary():
    """Play until a reward cannot become 0 or 1."""
    env = BinaryReward(make_env(BanditProblem(Unbounded(1.0), Beta(1.0, 1.0), 2), 1))
    env.reset(seed=0)
    for _ in range(20):
        env.step([0])


def delay_twice(env):
    return BatchedFeedback(Drift(DelayedReward(env), std=0.1))


VAST = {"prior": Gamma(1e300, 1e-300)}
CALLS = [
    (lambda: THREE_LAWS.sample(np.random.default_rng(0), (2, 4)), OTHER_ARMS),
    (lambda: THREE_LAWS.log_density(np.full(4, 0.5)), OTHER_ARMS),
    (lambda: gym.make("PoissonBandit-v0", **VAST).reset(seed=0), "must stay within [-1e+150,"),
    *((partial(make, "NoSuchBandit-v0"), NameNotFound, "NoSuchBandit") for make in MAKERS),
    *((partial(make, 5), TypeError, "problem must be a BanditProblem, got 5.") for make in MAKERS),
    (lambda: problem_from_dict(NO_ARMS), "problem must have the key 'num_arms', got"),
    (lambda: BanditProblem(Bernoulli(), WIDE, 3).to_dict(), "prior must have a method 'to_dict'"),
    (lambda: Drift(SHORT, std=0.1), TypeError, "env must be an environment of bandit_gym's, got <"),
    (lambda: DelayedReward(SYNC), TypeError, "bandit_gym's, got Sync", "SyncVectorEnv wrap each"),
    *((partial(each, RESTARTING), "env must not begin new", "put Autoreset ar") for each in AROUND),
    *((partial(delay_twice, env), "no other wrapper that changes its delays") for env in WORLDS),
    *((partial(BinaryReward, DelayedReward(env)), "at once where rewards beco") for env in WORLDS),
    (lambda: BinaryReward(gym.make("PoissonBandit-v0")), "rewards in [0, 1], got Poisson()"),
    (pay_binary, "rewards must be in [0, 1] to become 0 or 1, got ["),
]
TABLES = {
    "calls of their own": (lambda call: call(), CALLS),
    "options of one environment": (
        lambda family, given: gym.make(f"bandit_gym:{family}Bandit-v0", **given),
        ENVIRONMENTS,
    ),
    "statistics": (warm_start, LANES),
    "wrappers": (make_in_wrapper, WRAPPERS),
    "in-context data sets": (make_dataset, DATASETS),
    "rollouts": (lambda of, given: rollout(*of, seed=0, **given), ROLLOUTS),
    "comparisons": (lambda given: bg.compare(**SMALL | given), COMPARISONS),
    "options of vector environments": (lambda given: gym.make_vec(ENV, **given), VECTORS),
    "parameters of priors": (lambda make, given: make(*given), PRIORS),
    "dicts of priors": (prior_from_dict, PRIOR_DICTS),
    "priors of one's own, by name": (make_prior, OWN_PRIORS),
    "dicts of likelihoods": (likelihood_from_dict, LIKELIHOODS),
    "problems": (lambda given: BanditProblem(*given), PROBLEMS),
    "wrappers by name": (lambda given: wrap(gym.make(ENV), given), LISTED),
    "options of agents": (lambda name, given: make_agent(name, PROBLEM, **given), AGENTS),
    "agents of problems": (lambda name, of, given: make_agent(name, of, **given), OF_PROBLEMS),
    "posteriors": (lambda given: BayesUCB(ARMS, posterior=given), POSTERIORS),
}
"""Calls, and rows of their arguments and of the parts that the sentence must have."""


@pytest.mark.parametrize("name", TABLES)
def test_bad_arguments(name):
    check_refusals(*TABLES[name])


def test_numbers_of_any_type_are_taken_as_pythons():
    numbers = [(3, 1), (3, np.float32(1)), (np.int32(3), np.int64(1)), (np.uint8(3), np.float64(1))]
    for integer, real in numbers:
        env = gym.make("bandit_gym:GaussianBandit-v0", num_arms=integer, std=real)
        settings = env.unwrapped.problem.to_dict()
        assert settings["num_arms"] == 3 and type(settings["num_arms"]) is int
        assert settings["likelihood"] == {"name": "gaussian", "std": 1.0}
        assert type(settings["likelihood"]["std"]) is float
        assert bg.make(PROBLEM, max_episode_steps=integer)
        prior = Normal(np.array(real), [real, real])
        assert [type(value) for value in (prior.mean, *prior.std)] == [float] * 3


def test_actions_and_rewards_of_any_type_are_observed():
    agent = started(UniformRandom, PROBLEM)
    for action in (1, np.int64(1), np.uint8(1), np.array(1)):
        for reward in (1, 1.0, np.float32(1), np.array(1), True):
            agent.observe(action, reward)
    assert agent.lane_counts.tolist() == agent.lane_sums.tolist() == [[0, 4 * 5, 0]]
