import re
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from surface import make_env, problem_of

from agents import ExactThompson, UniformRandom
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import PlainAgents, play_steps, rollout
from bandit_gym.wrappers import wrap

LATE = [
    {"name": "Drift", "std": 0.05},
    {"name": "DelayedReward", "delay": {"name": "uniform", "low": 0, "high": 7}},
]
"""Worlds with everything of `bandit_gym.wrappers`: moving, late."""


class CountdownBandit(gym.Env):
    """Pays the action, tells a regret of 2 - action, and ends after `length` steps."""

    action_space = Discrete(3)
    observation_space = Discrete(100)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {"means": np.arange(3.0)}

    def step(self, action):
        self.t += 1
        return self.t, float(action), self.t == self.length, False, {"regret": 2.0 - action}


class Follower:
    """Pulls the arm whose features have the largest sum, and writes down what it is told."""

    def reset(self, num_envs=None, seed=None):
        self.seen, self.heard = [], []

    def act(self, observation=None):
        self.seen.append(observation)
        arms = observation.sum(axis=-1).argmax(axis=-1)
        return arms if arms.ndim else int(arms)

    def observe(self, action, reward, mask=None, *, observation=None):
        self.heard.append((action, reward, mask, observation))


@pytest.mark.parametrize("num_envs", [None, 2])
def test_agents_see_features_before_they_act_and_observe_late_rewards_with_theirs(num_envs):
    def make(*wrappers):
        return wrap(make_env("ContextualBandit-v0", num_envs), wrappers)

    agent = Follower()
    found = rollout(agent, make(), seed=0, horizon=6)
    assert all(heard[3] is None for heard in agent.heard) and len(agent.heard) == 6
    features = np.array(agent.seen).reshape(6, -1, 10, 5).swapaxes(0, 1)
    assert found.actions.tolist() == features.sum(axis=-1).argmax(axis=-1).tolist()
    late, told = Follower(), {"name": "DelayedReward", "delay": 2}
    delayed = rollout(late, make(told), seed=0, horizon=6)
    assert delayed.regret.tolist() == found.regret.tolist() and (found.regret >= 0).all()
    played = np.take_along_axis(features, found.actions[:, :, None, None], axis=2)[:, :, 0]
    heard = np.array([heard[3] for heard in late.heard]).reshape(4, -1, 5).swapaxes(0, 1)
    assert heard.tolist() == played[:, :4].tolist()
    for place, earned in enumerate((delayed.actions, delayed.rewards)):
        told = np.array([heard[place] for heard in late.heard]).reshape(4, -1).T
        assert told.tolist() == earned[:, :4].tolist()


class Plain:
    """Pulls random arms, by the generator that it is given."""

    def __init__(self, num_arms, rng):
        self.num_arms, self.rng = num_arms, rng

    def act(self):
        return int(self.rng.integers(self.num_arms))

    def observe(self, arm, reward):
        assert (type(arm), type(reward)) == (int, float)


class Counting(Plain):
    """Pulls the arm of the number of rewards that it has observed."""

    def __init__(self):
        self.num_rewards = 0

    def act(self):
        return self.num_rewards

    def observe(self, arm, reward):
        self.num_rewards += 1


def test_each_lane_has_a_plain_agent_of_its_own_which_plays_as_it_does_alone():
    lanes = gym.make_vec("BernoulliBandit-v0", num_envs=3)
    first, again = (rollout(Plain, lanes, seed=0, horizon=40).actions for _ in range(2))
    alone = rollout(Plain, gym.make("BernoulliBandit-v0"), seed=0, horizon=40).actions
    assert first.tolist() == again.tolist() and first[:1].tolist() == alone.tolist()
    assert len({*map(tuple, first.tolist())}) == 3
    late = wrap(lanes, [{"name": "DelayedReward", "delay": 2}])
    assert rollout(Counting, late, seed=0, horizon=5).actions.tolist() == [[0, 0, 0, 1, 2]] * 3


def test_plain_agents_observe_in_the_lanes_of_the_mask_and_start_anew_at_a_reset():
    agents = PlainAgents(Counting, problem_of(gym.make("BernoulliBandit-v0")))
    agents.reset(3, seed=0)
    agents.observe([0, 0, 0], [1, 0, 1], mask=np.array([True, False, True]))
    assert agents.act().tolist() == [1, 0, 1]
    agents.reset(2, seed=0)
    assert agents.act().tolist() == [0, 0]


def test_a_plain_agent_is_given_what_its_constructor_names():
    class Seeded(Counting):
        def __init__(self, seed, problem, *, bonus, unknown=None):
            self.num_rewards = seed % problem.num_arms
            assert (bonus, unknown) == (2, None)

    agents = PlainAgents(Seeded, problem_of(gym.make("BernoulliBandit-v0", num_arms=1000)), bonus=2)
    starts = []
    for _ in range(2):
        agents.reset(20, seed=5)
        starts.append(agents.act().tolist())
    assert starts[0] == starts[1] and len({*starts[0]}) > 10


class BestGuess:
    """Pulls the arm with the largest first feature, and keeps what it was given."""

    def __init__(self):
        self.seen, self.observed = [], []

    def act(self, visitor):
        self.seen.append(visitor)
        return int(visitor[:, 0].argmax())

    def observe(self, arm, reward, x):
        assert (type(arm), type(reward)) == (int, float)
        self.observed.append(x)


def name_parameters(act, observe, name):
    """Return a plain class whose methods have these parameters, of which `name` is shown."""
    source = f"""class Named(BestGuess):
    def act(self, {act}): return BestGuess.act(self, {name})
    def observe(self, arm, reward{observe}): pass
    """
    exec(source, names := {"BestGuess": BestGuess})
    return names["Named"]


NAMED = [
    ("z", "z"),
    ("observation=None", "observation"),
    ("greedy=False, features=None", "features"),
    ("*, context", "context"),
    ("z=1, *given, x, **others", "x"),
]


@pytest.mark.parametrize("num_envs", [None, 3])
def test_plain_agents_are_shown_the_features_of_each_arm_in_their_lane(num_envs):
    make = partial(make_env, "ContextualBandit-v0", num_envs)
    agents = PlainAgents(BestGuess, problem_of(make()))
    expected = rollout(agents, make(), seed=0, horizon=6).actions.tolist()
    for agent, actions in zip(agents._agents, expected, strict=True):
        assert np.argmax(np.array(agent.seen)[:, :, 0], axis=1).tolist() == actions
        assert np.shape(agent.seen) == (6, 10, 5) and len({*map(str, agent.seen)}) == 6
        np.testing.assert_array_equal(agent.seen, agent.observed)
    late = wrap(make(), [{"name": "DelayedReward", "delay": 2}])
    assert rollout(agents, late, seed=0, horizon=6).actions.tolist() == expected
    for agent in agents._agents:
        played = np.argmax(np.array(agent.seen)[:4, :, 0], axis=1)
        for step, arm in enumerate(played):  # of a late reward, the row of its arm alone
            np.testing.assert_array_equal(agent.observed[step][arm], agent.seen[step][arm])
            assert np.isnan(np.delete(agent.observed[step], arm, axis=0)).all()
    for act, name in NAMED:
        for observe in ("", ", x=None", ", *, context=None", ", bonus=1"):
            named = PlainAgents(name_parameters(act, observe, name), problem_of(make()))
            assert rollout(named, make(), seed=0, horizon=6).actions.tolist() == expected


def test_plain_agents_that_ask_for_no_features_are_given_none():
    class Unaware(Plain):
        def act(self, greedy=False):
            assert greedy is False
            return super().act()

    for env_id in ("ContextualBandit-v0", "BernoulliBandit-v0"):
        assert rollout(Unaware, gym.make(env_id), seed=0, horizon=6).lengths == 6
    with pytest.raises(TypeError, match="required positional argument"):  # no features to show
        rollout(BestGuess, gym.make("BernoulliBandit-v0"), seed=0, horizon=6)


class Tape:
    """An agent that plays 0, 1, 2, 0, ... and writes down what it is told."""

    def __init__(self, num_arms=3):
        self.num_arms = num_arms

    def reset(self, num_envs=None, seed=None):
        self.num_envs, self.seed, self.t, self.heard = num_envs, seed, -1, []

    def act(self, observation=None):
        self.t += 1
        arm = self.t % self.num_arms
        return arm if self.num_envs is None else np.full(self.num_envs, arm)

    def observe(self, action, reward, mask=None):
        mask = np.ones(self.num_envs or 1, dtype=bool) if mask is None else mask
        self.heard.append((np.atleast_1d(reward)[mask].tolist(), mask.tolist()))

    def diagnostics(self):
        return {"thoughts": np.full(self.num_envs or 1, float(self.t))}


def make_vector_env(lengths, mode):
    makers = [lambda length=length: CountdownBandit(length) for length in lengths]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def test_rollout_keeps_every_step_of_a_single_environment():
    result = rollout(Tape(), CountdownBandit(4), seed=0, horizon=10)
    assert result.actions.tolist() == [[0, 1, 2, 0]]
    assert result.rewards.tolist() == [[0.0, 1.0, 2.0, 0.0]]
    assert result.regret.tolist() == [[2.0, 1.0, 0.0, 2.0]]
    assert result.diagnostics["thoughts"].tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert result.lengths.tolist() == [4]


def test_diagnostics_are_those_of_each_step_also_of_an_agent_that_keeps_its_array():
    class Counting(Tape):
        thoughts = np.zeros(1)

        def diagnostics(self):
            self.thoughts[:] = self.t
            return {"thoughts": self.thoughts}

    result = rollout(Counting(), CountdownBandit(4), seed=0, horizon=10)
    assert result.diagnostics["thoughts"].tolist() == [[0.0, 1.0, 2.0, 3.0]]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_rollout_plays_one_episode_per_lane_when_lengths_differ(mode):
    result = rollout(Tape(), make_vector_env([4, 2], mode), seed=0, horizon=10)
    assert result.actions.tolist() == [[0, 1, 2, 0], [0, 1, -1, -1]]
    assert result.regret.tolist() == [[2.0, 1.0, 0.0, 2.0], [2.0, 1.0, 0.0, 0.0]]
    assert result.lengths.tolist() == [4, 2]
    agent = Tape()  # which hears of no step of a later episode
    rollout(agent, make_vector_env([4, 1, 2], mode), seed=0, horizon=10)
    assert agent.heard == [
        ([0.0, 0.0, 0.0], [True, True, True]),
        ([1.0, 1.0], [True, False, True]),
        ([2.0], [True, False, False]),
        ([0.0], [True, False, False]),
    ]


class Priced(Tape):
    """Plays the same arms whatever they are worth."""

    def act(self, observation=None, *, values=None, costs=None, floor=0.0):
        self.told = values, costs, floor
        return super().act(observation)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_rewards_and_regret_are_those_of_values_and_costs(mode):
    agent, values, costs = Priced(), [2.0, 1.0, 1.0], [0.0, 0.5, 2.0]
    prices = {"values": values, "costs": costs, "floor": 0.1}
    single = rollout(agent, CountdownBandit(4), seed=0, horizon=9, **prices)
    assert single.rewards.tolist() == [[0.0, 0.5, 0.0, 0.0]]
    assert single.regret.tolist() == [[0.5, 0.0, 0.5, 0.5]]
    assert [np.asarray(part).tolist() for part in agent.told] == [values, costs, 0.1]
    lanes = make_vector_env([4, 2], mode)
    result = rollout(agent, lanes, seed=0, horizon=9, values=[values, [1.0, 1.0, 1.0]])
    assert result.rewards.tolist() == [[0.0, 1.0, 2.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert result.regret.tolist() == [[2.0, 1.0, 0.0, 2.0], [2.0, 1.0, 0.0, 0.0]]
    options = {"num_arms": 3, "max_episode_steps": 20, "autoreset_mode": mode}
    for name, wrappers in (("BernoulliBandit-v0", LATE), ("ContextualBandit-v0", ())):
        env = wrap(gym.make_vec(name, 2, **options), wrappers)
        plain, priced = (
            rollout(agent, env, seed=0, **prices)
            for prices in ({}, {"values": [2.0] * 3, "costs": [0.5] * 3})
        )
        assert priced.rewards.tolist() == (2.0 * plain.rewards - 0.5).tolist()
        assert priced.regret == pytest.approx(2.0 * plain.regret, abs=1e-14)  # of sums below 4


def test_rollout_gives_the_agent_a_stream_that_no_lane_of_the_environment_has():
    agent = Tape()
    rollout(agent, make_vector_env([1] * 5, "NextStep"), seed=7, horizon=1)
    state = agent.seed.generate_state(4).tolist()
    assert all(np.random.SeedSequence(7 + i).generate_state(4).tolist() != state for i in range(5))


def test_a_step_tells_the_time_of_the_agent_without_that_of_the_environment(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("bandit_gym.rollout.perf_counter", lambda: clock[0])

    def takes(seconds, method):
        def slow(*args, **kwargs):
            clock[0] += seconds
            return method(*args, **kwargs)

        return slow

    agent, env = Tape(), CountdownBandit(2)
    agent.act, agent.observe = takes(1.0, agent.act), takes(2.0, agent.observe)
    env.step = takes(10.0, env.step)
    steps = play_steps(agent, env, env_seed=0, agent_seed=np.random.SeedSequence(0))
    assert [step.agent_seconds for step in steps] == [3.0, 3.0]


def test_rollout_plays_environments_of_others_to_their_limit_without_regret():
    env = gym.make("CartPole-v1", max_episode_steps=5)
    for horizon in (None, 5):
        result = rollout(Tape(num_arms=2), env, seed=0, horizon=horizon)
        assert result.lengths.tolist() == [5] and result.regret is None, horizon


def test_late_environments_are_played_alike_however_lanes_are_reset():
    found = []
    for mode in AutoresetMode:
        options = {"num_arms": 4, "max_episode_steps": 40, "autoreset_mode": mode}
        env = wrap(gym.make_vec("BernoulliBandit-v0", 3, **options), LATE)
        agent = ExactThompson(problem_of(env))
        played = rollout(agent, env, seed=3)
        found.append([each.tolist() for each in (played.actions, played.rewards, agent.counts)])
    assert found[0] == found[1] == found[2]


def test_another_likelihood_is_warned_of_where_the_rollout_was_called():
    agent = UniformRandom(BanditProblem(Gaussian(0.5), Normal(0.5, 1), 3))
    world = make_env(BanditProblem(Bernoulli(), Beta(1, 1), 3))
    with pytest.warns(UserWarning, match="where the environment's is Bernoulli") as told:
        assert rollout(agent, world, seed=0, horizon=3).rewards.shape == (1, 3)
    assert [warning.filename for warning in told] == [__file__]


class OfArrays:
    """A prior that is equal to itself alone, as one with arrays in it may be."""

    def __init__(self, high):
        self.edges = np.array([0.0, high])

    def sample(self, rng, shape):
        return rng.uniform(*self.edges, shape)

    def log_density(self, means):
        is_inside = (means >= self.edges[0]) & (means <= self.edges[1])
        return np.where(is_inside.all(axis=-1), 0.0, -np.inf)


class Nameless(OfArrays):
    """A prior that neither compares nor pickles."""

    def __init__(self, high):
        super().__init__(high)
        self.secret = lambda: None


PRIORS = {
    "another": (Beta(2, 1), Beta(1, 1), True),
    "equal": (TruncatedMultivariateNormal(0.5, [[1.0, 0.5], [0.5, 1.0]]),) * 2 + (False,),
    "equal content": (OfArrays(1.0), OfArrays(1.0), False),
    "other content": (OfArrays(1.0), OfArrays(0.5), True),
    "that cannot be compared": (Nameless(1.0), Nameless(1.0), False),
}


def test_another_prior_is_warned_of_and_an_equal_one_is_not():
    rule = "agent believes in the prior .*, where the environment's is .*; its results are those of"
    for name, (believed, true, is_told) in PRIORS.items():
        agent, world = (BanditProblem(Bernoulli(), prior, 2) for prior in (believed, true))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            rollout(UniformRandom(agent), make_env(world), seed=0, horizon=3)
        found = [bool(re.search(rule, str(each.message))) for each in told]
        assert found == [True] * is_told, name
        assert not any(" at 0x" in str(each.message) for each in told)  # contents, not addresses
