"""The contract of `agents.base.Agent`, over all agents."""

import pickle

import numpy as np
import pytest
from families import ALL_AGENTS
from gymnasium.error import InvalidAction, ResetNeeded

from agents import ExactThompson, RacingThompson, UniformRandom, make_agent
from agents.base import Agent
from agents.oracle import action_probabilities
from bandit_gym.envs.dynamics import pull
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
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
    streams = {}
    for name in ALL_AGENTS:
        agent = make_agent(name, PROBLEM)
        agent.reset(seed=0)
        streams[type(agent)] = agent.rng.random()
    assert len(set(streams.values())) == len(streams) > 10


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


@pytest.mark.parametrize(
    "name", sorted(set(ALL_AGENTS) - {"racing", "racing_paper", "exact", "smc", "bayes_ucb"})
)
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


CONJUGATE = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
GRID = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 4)
CHAINS = BanditProblem(
    Bernoulli(), TruncatedMultivariateNormal(0.5, (0.05 * np.eye(4) + 0.02).tolist()), 4
)
PROBLEMS = {"conjugate": CONJUGATE, "grid": GRID, "chains": CHAINS}
REFERENCE = BanditProblem(Gaussian(), Normal(0.0, 1.0), 4)
SETTINGS = {
    **{
        f"{name}, {kind}": (name, kind, {})
        for name in ALL_AGENTS
        for kind in PROBLEMS
        if kind == "conjugate" or name not in ("discounted_gittins", "information_relaxation")
        if kind != "chains" or name != "sliding_window"
    },
    "exact, reference": ("exact", "reference", {"prior": "reference"}),
    "smc, moves": ("smc", "grid", {"resampling": "systematic", "move": "random-walk"}),
    "greedy, chains": ("greedy", "chains", {"estimate": "posterior"}),
    "racing_paper, pull": ("racing_paper", "reference", {"unpulled_arms": "pull"}),
}


def make_setting(setting, num_envs, num_steps):
    """Return an agent that has played some steps in N lanes."""
    name, kind, options = SETTINGS[setting]
    agent = make_agent(name, (PROBLEMS | {"reference": REFERENCE})[kind], **options)
    agent.reset(num_envs, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(num_steps):
        agent.observe(agent.act(), rng.integers(2, size=num_envs).astype(float))
    return agent


def excess(agent, num_rounds):
    """Return by how much arms were played more often than the law says, and four deviations."""
    law = agent.action_probabilities()
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    shares = np.mean([agent.act()[:, None] == np.arange(4) for _ in range(num_rounds)], axis=0)
    variance = (law * (1 - law)).sum(axis=0) / num_rounds
    return abs((shares - law).sum(axis=0)), 4 * np.sqrt(variance) + 1e-9


@pytest.mark.parametrize("setting", [s for s in SETTINGS if not s.startswith("racing")])
@pytest.mark.parametrize("num_steps", [0, 12])
def test_arms_are_played_as_often_as_the_law_says(setting, num_steps):
    is_chain = "chains" in setting  # whose answers cost milliseconds
    num_envs = 20 if is_chain else 200
    agent = make_setting(setting, num_envs, min(num_steps, 2) if is_chain else num_steps)
    found, allowed = excess(agent, 1 if is_chain else 10)
    if not agent.has_exact_law:  # a chain of 128 sweeps, worth 40 draws, answers for each lane
        allowed = allowed * np.sqrt(1 + 1 / 40) + num_envs * 0.01
    assert (found <= allowed).all()


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.startswith("racing")])
def test_law_of_a_race_is_the_one_that_it_approximates(setting):
    agent = make_setting(setting, 2, 0)
    agent.warm_start([[4, 2, 2, 3], [1, 1, 9, 1]], [[2, 1, 0, 2], [1, 0, 4, 0]])
    assert not agent.has_exact_law
    problem = agent.problem
    tolerance = 0.01 if problem is CHAINS else None
    expected = action_probabilities(problem, agent.counts, agent.sums, tolerance=tolerance)
    # the oracle's own chains, and 10,000 weighted draws of weights not too unequal
    error = 0.02 + 4 * np.sqrt(0.25 / 2000) if problem is CHAINS else 2e-3
    np.testing.assert_allclose(agent.action_probabilities(), expected, atol=error)


def test_race_finds_the_posterior_that_it_approximates_once():
    agent = make_setting("racing, chains", 2, 0)
    agent.action_probabilities()
    found = agent._target
    agent.observe(agent.act(), [1.0, 0.0])
    agent.action_probabilities()
    assert agent._target is found


def test_race_that_pulls_missing_arms_first_says_so():
    agent = make_setting("racing_paper, pull", 1, 0)
    agent.warm_start([[1, 0, 1, 0]], [[3.0, 0.0, 1.0, 0.0]])
    assert agent.action_probabilities().tolist() == [[0.0, 0.5, 0.0, 0.5]]


@pytest.mark.parametrize("num_arms", [2, 10, 100])
def test_law_of_exact_thompson_is_that_of_quadrature(num_arms):
    problem, rng = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms), np.random.default_rng(0)
    counts = rng.geometric(0.05, num_arms)
    sums = rng.binomial(counts, rng.random(num_arms))
    agent = ExactThompson(problem)
    agent.reset(seed=0)
    agent.warm_start(counts, sums)
    expected = action_probabilities(problem, counts, sums)
    np.testing.assert_allclose(agent.action_probabilities(), expected, atol=1e-6)


def test_ties_are_shared():
    agent = make_agent("greedy", CONJUGATE, estimate="average")
    agent.reset(1, seed=0)
    agent.warm_start([[2, 2, 2, 1]], [[1.0, 1.0, 0.0, 0.0]])
    assert agent.action_probabilities().tolist() == [[0.5, 0.5, 0.0, 0.0]]


def test_epsilon_is_spread_over_all_arms():
    agent = make_agent("epsilon_greedy", CONJUGATE, epsilon=0.2, estimate="average")
    agent.reset(seed=0)
    agent.warm_start([1, 1, 1, 1], [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(agent.action_probabilities(), [0.05, 0.85, 0.05, 0.05])


def test_law_of_a_single_run_has_one_axis():
    agent = UniformRandom(CONJUGATE)
    agent.reset(seed=0)
    assert agent.action_probabilities().shape == (4,)


@pytest.mark.parametrize(
    ("agent", "is_exact"),
    [
        (ExactThompson(CONJUGATE), True),
        (ExactThompson(GRID), True),
        (ExactThompson(CHAINS), False),
        (RacingThompson(GRID), False),
        (make_agent("smc", GRID), True),
        (make_agent("bayes_ucb", GRID), True),
    ],
)
def test_agents_say_whether_their_law_is_exact(agent, is_exact):
    assert agent.has_exact_law is is_exact


def test_agent_of_ones_own_without_a_law_is_told_what_to_define():
    class Stubborn(Agent):
        def _choose(self):
            return np.zeros(self.num_lanes, dtype=np.int64)

    agent = Stubborn(CONJUGATE)
    agent.reset(seed=0)
    assert agent.act() == 0
    with pytest.raises(TypeError, match="Stubborn must define _choose, and _law for its propens"):
        agent.action_probabilities()


AWAY = np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0], [1, 0, 1, 1]], dtype=bool)
SLEEPING = {name: setting for name, setting in SETTINGS.items() if "chains" not in name}
LAWFUL = [name for name in SLEEPING if name.split(",")[0] != "racing"]


@pytest.mark.parametrize("setting", [*LAWFUL, "exact, chains", "smc, chains"])
def test_available_arms_alone_are_played_as_often_as_the_law_says(setting):
    """Sums over lanes of 4 patterns; four deviations, and 0.01 a lane where laws are not exact."""
    num_envs = 40 if "chains" in setting else 200
    agent = make_setting(setting, num_envs, 6)
    available = np.tile(AWAY, (num_envs // 4, 1))
    law = agent.action_probabilities(available=available)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    acts = np.array([agent.act(available=available) for _ in range(5)])
    assert available[np.arange(num_envs), acts].all() and (law[~available] == 0).all()
    shares = (acts[..., None] == np.arange(4)).mean(axis=0)
    allowed = 4 * np.sqrt((law * (1 - law)).sum(axis=0) / 5) + 1e-9
    if not agent.has_exact_law:
        allowed = allowed + num_envs * 0.01
    assert (abs((shares - law).sum(axis=0)) <= allowed).all()


@pytest.mark.parametrize("setting", ["exact, conjugate", "exact, grid", "smc, grid"])
def test_law_among_some_arms_is_that_of_a_problem_of_these(setting):
    """Quadratures of two codes to 1e-6 and 1e-3; 1,000 particles an arm or so to 0.1."""
    agent = make_setting(setting, 1, 0)
    agent.warm_start([4, 2, 2, 3], [2, 1, 0, 2])
    law = agent.action_probabilities(available=[[True, False, True, True]])
    problem = BanditProblem(Bernoulli(), agent.problem.prior, 3)
    expected = action_probabilities(problem, [[4, 2, 3]], [[2, 0, 2]])
    error = {"exact, conjugate": 1e-6, "exact, grid": 1e-3, "smc, grid": 0.1}[setting]
    np.testing.assert_allclose(law[:, [0, 2, 3]], expected, atol=error)


@pytest.mark.parametrize("proposal", ["reference", "matched"])
def test_race_among_some_arms_plays_as_a_draw_of_these(proposal):
    """A race of one sample is Thompson sampling under the proposal: 2,000 lanes, four errors."""
    options = {"stopping": 1, "proposal": proposal}
    agent = RacingThompson(REFERENCE_FREE, **options)
    agent.reset(2000, seed=3)
    agent.warm_start([4, 2, 2, 3], [2, 1, 0, 2])
    available = np.tile(AWAY[0], (2000, 1))
    law = ExactThompson(REFERENCE_FREE)
    law.reset(seed=0)
    law.warm_start([4, 2, 2, 3], [2, 1, 0, 2])
    expected = law.action_probabilities(available=AWAY[0])
    found = np.bincount(agent.act(available=available), minlength=4) / 2000
    assert (abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / 2000)).all()


REFERENCE_FREE = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)  # the reference prior itself


@pytest.mark.parametrize(
    ("available", "error", "text"),
    [
        ([[True] * 4, [False] * 4], ValueError, r"an arm that can be pulled, got .* in lane 1\."),
        ([True] * 4, ValueError, r"available must have shape \(2, 4\), got \[True, "),
        ([[1, 1, 1, 2]] * 2, ValueError, "available must be an array of booleans"),
        ([["a"] * 4] * 2, TypeError, "available must be an array of booleans"),
        ([[np.nan] * 4] * 2, TypeError, "available must be an array of booleans"),
    ],
)
def test_bad_available_is_refused_and_changes_nothing(available, error, text):
    agent, twin = (make_setting("exact, conjugate", 2, 5) for _ in range(2))
    for ask in (agent.act, agent.action_probabilities):
        with pytest.raises(error, match=text):
            ask(available=available)
    assert (play(agent, 5, seed=0) == play(twin, 5, seed=0)).all()


class Stubborn(Agent):
    """Plays arm 0, whatever there is."""

    def _choose(self):
        return np.zeros(self.num_lanes, dtype=np.int64)

    def _law(self):
        return np.eye(self.problem.num_arms)[self._choose()]


def test_agent_that_plays_what_is_not_there_is_told_so_and_goes_on():
    agent = Stubborn(PROBLEM)
    agent.reset(seed=0)
    with pytest.raises(ValueError, match="Stubborn._choose must return arms that are available"):
        agent.act(available=[0, 1, 1, 1])
    with pytest.raises(ValueError, match="Stubborn._law must give no probability to unavailable"):
        agent.action_probabilities(available=[0, 1, 1, 1])
    assert agent.act() == 0 and agent.act(available=[1, 0, 0, 0]) == 0
