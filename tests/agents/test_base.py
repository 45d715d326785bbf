"""The contract of `agents.base.Agent`, over all agents."""

import pickle

import numpy as np
import pytest
from families import ALL_AGENTS
from gymnasium.error import InvalidAction, ResetNeeded

from agents import AGENTS, UniformRandom, make_agent
from agents.base import Agent, random_argmax
from bandit_gym.dynamics import pull
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)


@pytest.fixture(params=ALL_AGENTS)
def agent(request):
    return make_agent(request.param, PROBLEM)


def play(agent, num_steps, seed):
    """Let the agent play a fixed world and return its (T, N) actions."""
    rng = np.random.default_rng(seed)
    means = np.linspace(0.2, 0.8, agent.problem.num_arms)
    history = []
    for _ in range(num_steps):
        actions = np.atleast_1d(agent.act())
        rewards = pull(agent.problem.likelihood, means[None], actions, rng.random(len(actions)))
        single = agent.num_envs is None
        agent.observe(actions[0] if single else actions, rewards[0] if single else rewards)
        history.append(actions)
    return np.array(history)


def test_agent_returns_an_int_for_a_single_run(agent):
    agent.reset(seed=0)
    assert type(agent.act()) is int


def test_agent_returns_an_arm_per_lane(agent):
    agent.reset(7, seed=0)
    actions = agent.act()
    assert actions.shape == (7,) and actions.dtype == np.int64
    assert ((actions >= 0) & (actions < 4)).all()


def test_agent_act_changes_no_posterior(agent):
    agent.reset(3, seed=0)
    play(agent, 5, seed=1)
    counts, sums = agent.counts.copy(), agent.sums.copy()
    for _ in range(3):
        agent.act()
    assert (agent.counts == counts).all() and (agent.sums == sums).all()


def test_agent_repeats_itself_with_the_same_seed(agent):
    agent.reset(5, seed=3)
    first = play(agent, 20, seed=1)
    agent.reset(5, seed=3)
    assert (play(agent, 20, seed=1) == first).all()


def test_agent_differs_with_another_seed(agent):
    agent.reset(50, seed=3)
    first = play(agent, 10, seed=1)
    agent.reset(50, seed=4)
    assert (play(agent, 10, seed=1) != first).any()


def test_agents_of_two_kinds_do_not_share_a_stream():
    streams = []
    for name in ALL_AGENTS:
        agent = make_agent(name, PROBLEM)
        agent.reset(seed=0)
        streams.append(agent.rng.random())
    assert len(set(streams)) == len(AGENTS)


def test_agent_pickled_continues_bit_for_bit(agent):
    agent.reset(5, seed=0)
    play(agent, 10, seed=1)
    copy = pickle.loads(pickle.dumps(agent))
    assert (play(agent, 15, seed=2) == play(copy, 15, seed=2)).all()


def test_agent_observe_leaves_masked_lanes_alone(agent):
    agent.reset(3, seed=0)
    mask = np.array([True, False, True])
    agent.observe(np.array([0, 99, 2]), np.array([1.0, np.nan, 0.0]), mask=mask)
    assert agent.counts.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]
    assert agent.sums.sum() == 1.0


def test_agent_reset_lanes_forgets_only_those(agent):
    agent.reset(2, seed=0)
    agent.observe([1, 1], [1.0, 1.0])
    agent.reset_lanes(np.array([True, False]))
    assert agent.counts.sum(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("action", "reward", "error", "message"),
    [
        ([0, 4], [1.0, 0.0], InvalidAction, "from 0 to 3, got 4"),
        ([0.5, 1.0], [1.0, 0.0], InvalidAction, "integers"),
        ([0], [1.0, 0.0], InvalidAction, "shape"),
        ([0, 1], [1.0, 0.5], ValueError, "0 or 1"),
        ([0, 1], [1.0, np.nan], ValueError, "nan"),
    ],
)
def test_agent_observe_refuses_bad_input_and_changes_nothing(agent, action, reward, error, message):
    agent.reset(2, seed=0)
    state = pickle.dumps(agent)
    with pytest.raises(error, match=message):
        agent.observe(np.array(action), np.array(reward))
    assert pickle.dumps(agent) == state


def test_agent_asks_for_a_reset_first(agent):
    with pytest.raises(ResetNeeded, match="reset"):
        agent.act()
    with pytest.raises(ResetNeeded, match="reset"):
        agent.observe(0, 1.0)


def test_agent_warm_start_equals_observing(agent):
    agent.reset(2, seed=0)
    twin = pickle.loads(pickle.dumps(agent))
    for action, reward in [(0, 1.0), (0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0)]:
        agent.observe([action, action], [reward, reward])
    twin.warm_start([2, 1, 1, 1], [1.0, 1.0, 0.0, 1.0])
    assert (agent.act() == twin.act()).all()


@pytest.mark.parametrize(
    ("counts", "sums", "arm"),
    [([1, 0, 0, 0], [2.0, 0, 0, 0], 0), ([0, 0, 0, 0], [0, 0, 1.0, 0], 2)],
)
def test_agent_warm_start_names_the_arm_with_impossible_statistics(agent, counts, sums, arm):
    agent.reset(seed=0)
    with pytest.raises(ValueError, match=f"arm {arm}"):
        agent.warm_start(counts, sums)


@pytest.mark.parametrize("name", sorted(set(ALL_AGENTS) - {"random", "top_two"}))
def test_agent_plays_the_best_of_easy_arms_most(name):
    agent = make_agent(name, PROBLEM)
    agent.reset(20, seed=0)
    share = (play(agent, 300, seed=5)[200:] == 3).mean()
    assert share > 0.5  # uniform play gives 0.25 +- 0.01


def test_make_agent_names_the_nearest_agent_when_unknown():
    with pytest.raises(ValueError, match="'racing'"):
        make_agent("racign", PROBLEM)


def test_make_agent_names_the_nearest_option_when_unknown():
    with pytest.raises(ValueError, match="'delta'"):
        make_agent("racing", PROBLEM, detla=0.1)


def test_random_argmax_breaks_ties_uniformly(rng):
    scores = np.tile([1.0, 3.0, 3.0, 3.0], (30_000, 1))
    share = np.bincount(random_argmax(rng, scores), minlength=4) / len(scores)
    assert share[0] == 0
    assert np.abs(share[1:] - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(scores))


def test_random_argmax_needs_no_draw_without_ties(rng):
    state = rng.bit_generator.state
    assert random_argmax(rng, np.array([[1.0, 2.0], [4.0, 3.0]])).tolist() == [1, 0]
    assert rng.bit_generator.state == state


@pytest.mark.parametrize("name", sorted(set(ALL_AGENTS) - {"racing", "exact", "smc", "bayes_ucb"}))
def test_baseline_first_pull_is_uniform_over_arms(name):
    agent = make_agent(name, PROBLEM)
    agent.reset(20_000, seed=0)
    share = np.bincount(agent.act(), minlength=4) / 20_000
    assert np.abs(share - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 20_000)


@pytest.mark.parametrize("num_envs", [None, 1, 3])
@pytest.mark.parametrize("arm", [-1, 2])
def test_choice_that_is_no_arm_is_refused_by_the_name_of_the_agent(num_envs, arm):
    class Astray(Agent):
        def _choose(self):
            return np.full(self.num_lanes, arm)

    agent = Astray(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2))
    agent.reset(num_envs, seed=0)
    with pytest.raises(ValueError, match=f"Astray._choose must return arms .* got {arm} in lane 0"):
        agent.act()


@pytest.mark.parametrize("num_envs", [None, 2])
def test_sums_that_become_infinite_are_refused_and_change_nothing(num_envs):
    agent = UniformRandom(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2))
    agent.reset(num_envs, seed=0)
    arm, reward = (0, 1.7e308) if num_envs is None else ([0, 1], [1.0, 1.7e308])
    agent.observe(arm, reward)
    before = agent.counts.copy(), agent.sums.copy()
    with pytest.raises(ValueError, match="rewards must leave the sum of an arm's rewards finite"):
        agent.observe(arm, reward)
    with pytest.raises(ValueError, match="sums must add up to a finite number"):
        agent.warm_start([1, 1], [1.7e308, 1.7e308])
    np.testing.assert_array_equal(agent.counts, before[0])
    np.testing.assert_array_equal(agent.sums, before[1])


def test_counts_that_overflow_are_refused_and_change_nothing():
    agent = UniformRandom(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2))
    agent.reset(2, seed=0)
    agent.warm_start([2**61, 2**60], [0, 0])
    with pytest.raises(ValueError, match=r"counts must add up to at most 2\*\*62 .* in lane 0"):
        agent.warm_start([2**61, 2**60], [0, 0])
    assert agent.counts.tolist() == [[2**61, 2**60]] * 2
