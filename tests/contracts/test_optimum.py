"""The best possible, against exact arithmetic, and every rule's regret against what it plays."""

from fractions import Fraction
from itertools import cycle, product

import numpy as np
import pytest
from exact_values import exact_worths, plain
from families import bernoulli
from refusals import check_refusals
from scipy import integrate
from scipy.stats import truncnorm
from surface import assert_played, in_states, started

from agents import UCB1, BayesOptimal, ExactThompson, make_agent
from agents.bayes_optimal import expected_regret, optimal_bracket, optimal_regret, optimal_value
from agents.bayes_optimal.regret import thompson_probabilities
from agents.oracle import action_probabilities
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import DelayedReward

UNIFORM, ROUGH = bernoulli(Beta(1.0, 1.0)), bernoulli(TruncatedNormal(0.4, 0.2))
UNLIKE = bernoulli(Beta([1.0, 1.0, 2.0], [1.0, 2.0, 1.0]), 3)
DEPENDENT = bernoulli(TruncatedMultivariateNormal(0.5, [[1.0, 0.6], [0.6, 1.0]]))
NORMAL = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep policies in a folder of their own."""
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))
    return tmp_path


RARE_STAR = Mixture((Beta(20.0, 20.0), Beta(97.0, 3.0)), (0.75, 0.25))
STARS = (((Fraction(3, 4), 20, 20), (Fraction(1, 4), 97, 3)),) * 2


@pytest.mark.parametrize(
    ("problem", "arms", "horizon"),
    [
        (UNIFORM, plain((1, 1), (1, 1)), 11),
        (bernoulli(Beta([1.0, 3.0], [2.0, 1.0])), plain((1, 2), (3, 1)), 14),
        (bernoulli(Beta([1.0, 2.0, 1.0], [1.0, 1.0, 3.0]), 3), plain((1, 1), (2, 1), (1, 3)), 9),
        (bernoulli(RARE_STAR), STARS, 12),
    ],
    ids=["uniform", "unlike", "three", "rare star"],
)
def test_value_is_that_of_exact_arithmetic(problem, arms, horizon):
    exact = max(exact_worths(arms, horizon)(((0, 0),) * len(arms)))
    assert optimal_value(problem, horizon) == pytest.approx(float(exact), rel=1e-8)


def states_before(num_pulls):
    """Return all ((n, s), (m, r)) of two arms that have fewer pulls than this together."""
    arms = [(n, s) for n in range(num_pulls) for s in range(n + 1)]
    return [(one, other) for one, other in product(arms, arms) if one[0] + other[0] < num_pulls]


@pytest.mark.parametrize("priors", [((1, 1), (1, 1)), ((1, 2), (2, 1))])
def test_choices_are_the_best_arms_of_exact_arithmetic_and_the_lowest_of_equal_ones(priors):
    states, worths = states_before(14), exact_worths(plain(*priors), 14)
    counts, sums = np.moveaxis(np.array(states), 2, 0)
    problem = bernoulli(Beta(*np.array(priors, dtype=float).T.tolist()))
    agent = in_states("optimal", problem, counts, sums, horizon=14)
    expected = [max((0, 1), key=lambda arm, state=state: worths(state)[arm]) for state in states]
    np.testing.assert_array_equal(agent.act(), expected)
    assert len({worths(state)[0] == worths(state)[1] for state in states}) == 2  # some are ties


def test_probabilities_of_thompson_sampling_in_many_states_are_the_oracles():
    """Of arms with three priors, with up to six pulls."""
    counts = np.random.default_rng(0).integers(7, size=(30, 3))
    sums = np.random.default_rng(1).binomial(counts, 0.5)
    expected = action_probabilities(UNLIKE, counts, sums)
    np.testing.assert_allclose(thompson_probabilities(UNLIKE, counts, sums), expected, atol=1e-6)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_arms_are_told_apart_wherever_their_means_may_lie(order):
    """Two that have no density where the first has any once counted as one, and won .79 less."""
    mean, low, high = np.array([[0.2, 0.5, 0.9], [0.0, 0.4, 0.4], [0.3, 1.0, 1.0]])[:, order]
    problem = bernoulli(TruncatedNormal(mean, 0.05, low, high), 3)
    nothing = np.zeros((1, 3), dtype=np.int64)
    law = thompson_probabilities(problem, nothing, nothing * 1.0)
    np.testing.assert_allclose(law, action_probabilities(problem, nothing, nothing), atol=1e-6)
    cut = truncnorm(-10.0, 2.0, 0.9, 0.05).mean()  # the best arm is the best but in 1e-8 of cases
    assert optimal_value(problem, 1) == pytest.approx(cut, abs=1e-6)
    agent = started("exact", problem, None, [1, 0, 0], [0, 0, 0])
    assert expected_regret(problem, agent, 2)[-1] < 1e-6
    optimal_bracket(problem, 2, agent=agent, num_samples=10)
    assert agent.counts.tolist() == [1, 0, 0]  # it is the caller's


def test_one_pull_and_all_that_is_known_leave_the_best_mean():
    """Their sum over T = 1 is E max: 5 / 6 of five uniform arms, 3 / 4 of these two."""
    law, grid = TruncatedNormal(0.4, 0.2), np.linspace(0, 1, 20_001)
    chances = integrate.cumulative_simpson(np.exp(law.arm_log_density(grid)), x=grid, initial=0)
    best = {
        3 / 4: bernoulli(Beta([1.0, 2.0], 1.0)),
        1 - integrate.simpson(chances**3, x=grid): bernoulli(law, 3),
        5 / 6: bernoulli(Beta(1.0, 1.0), 5),
    }
    for expected, problem in best.items():
        found = optimal_value(problem, 1) + optimal_regret(problem, 1)
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", [Beta(1.0, 1.0), Beta(0.5, 0.5), Beta(3.0, 40.0)], ids=repr)
def test_quadrature_agrees_with_the_closed_form(law):
    """Of a mixture of a law with itself, which does not say that it is conjugate."""
    found = optimal_value(bernoulli(Mixture([law, law], [1, 1])), 60)
    assert found == pytest.approx(optimal_value(bernoulli(law), 60), rel=1e-8)


@pytest.mark.parametrize(("num_arms", "horizon"), [(2, 60), (3, 20), (4, 12), (5, 8)])
def test_arms_alike_are_solved_as_arms_that_differ_by_nothing(num_arms, horizon):
    """Equal arms share states; arms that differ in the last digits do not."""
    nearly = (1.0 + 1e-13 * np.arange(num_arms)).tolist()
    problems = [bernoulli(Beta(alpha, 1.0), num_arms) for alpha in (1.0, nearly)]
    values = [optimal_value(problem, horizon) for problem in problems]
    assert values[0] == pytest.approx(values[1], rel=1e-11)


RULES = {
    "thompson": ("exact", {}),
    "greedy": ("greedy", {"estimate": "average"}),
    "epsilon_greedy": ("epsilon_greedy", {"estimate": "average", "epsilon": 0.2}),
    **{name: (name, {}) for name in ("random", "ucb1", "kl_ucb", "bayes_ucb")},
}
"""Agents and their options, by the names of rules."""


GAMES = {
    "uniform": (UNIFORM, 25),
    "unlike": (UNLIKE, 12),
    "cut normal": (bernoulli(TruncatedNormal(0.4, 0.3)), 25),
}


@pytest.mark.parametrize(
    ("rule", "game"),
    [*zip(RULES, cycle(GAMES), strict=False), ("thompson", "unlike"), ("thompson", "cut normal")],
)
def test_rules_lose_in_play_what_the_recursion_says_and_no_less_than_the_best(rule, game):
    problem, horizon = GAMES[game]
    env = BanditVectorEnv(2000, problem=problem)
    name, options = RULES[rule]
    found = rollout(make_agent(name, problem, **options), env, seed=0, horizon=horizon)
    played = found.regret.cumsum(axis=1)[:, [horizon // 2, horizon - 1]]
    exact = expected_regret(problem, rule, horizon, **options)
    error = 4 * played.std(axis=0) / np.sqrt(2000)
    assert (np.abs(played.mean(axis=0) - exact[[horizon // 2, horizon - 1]]) < error).all()
    assert exact[-1] > optimal_regret(problem, horizon) + 1e-3


@pytest.mark.parametrize("problem", [UNIFORM, bernoulli(Beta(1.0, [1.0, 2.0]))])
def test_the_optimum_loses_in_play_what_the_recursion_says(problem):
    env = BanditVectorEnv(2000, problem=problem)
    found = rollout(BayesOptimal(problem, horizon=30), env, seed=0, horizon=30)
    regrets = found.regret.sum(axis=1)
    expected = optimal_regret(problem, 30)
    found = expected_regret(problem, BayesOptimal(problem, horizon=30), 30)[-1]
    assert found == pytest.approx(expected, abs=1e-9)
    assert abs(regrets.mean() - expected) < 4 * regrets.std() / np.sqrt(len(regrets))


def test_the_optimum_loses_no_more_than_greedy_and_thompson_where_rewards_are_late():
    """T = 60, delay 20: by the paired differences of 2,000 lanes with the same means."""
    lost = {}
    for name, options in {"optimal": {"horizon": 60}, "exact": {}, "greedy": {}}.items():
        env = DelayedReward(BanditVectorEnv(2000, problem=UNIFORM), 20)
        found = rollout(make_agent(name, UNIFORM, **options), env, seed=0, horizon=60)
        lost[name] = found.regret.sum(axis=1)
    for other in ("exact", "greedy"):
        more = lost["optimal"] - lost[other]
        assert more.mean() <= 4 * more.std() / np.sqrt(len(more))
    assert lost["optimal"].mean() < 4.8  # 5.84 once, with arm 0 in every lane for want of rewards


def test_with_rewards_on_their_way_the_best_for_what_was_seen_and_is_left_is_played():
    """After 7 decisions of 11 and n < 7 rewards that is the policy for n + 4 pulls."""
    states = states_before(7)
    counts, sums = np.moveaxis(np.array(states), 2, 0)
    agent = in_states("optimal", UNIFORM, counts, sums, horizon=11)
    agent.lane_decisions = np.full(len(states), 7)
    law, actions = agent.action_probabilities(), agent.act()
    for state, shares, arm in zip(states, law, actions, strict=True):
        pulls = sum(n for n, _ in state)
        worths = exact_worths(plain((1, 1), (1, 1)), pulls + 4)(state)
        best = np.array([worth == max(worths) for worth in worths])
        assert shares.tolist() == (best / best.sum()).tolist() and best[arm]


def test_without_any_reward_yet_no_arm_is_every_lanes():
    agent = started("optimal", bernoulli(Beta(1.0, 1.0), 3), 900, horizon=9)
    agent.act()
    assert agent.action_probabilities().tolist() == [[1 / 3] * 3] * 900
    assert_played(agent.act(), [1 / 3] * 3)


def test_a_function_is_a_rule():
    def alternate(counts, sums):
        return np.eye(2)[counts.sum(axis=1) % 2]

    # Half of the pulls go to either arm: as much regret as by chance.
    expected = expected_regret(UNIFORM, "random", 10)
    assert expected_regret(UNIFORM, alternate, 10) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("problem", "horizon"), [(UNIFORM, 20), (UNLIKE, 9), (ROUGH, 15)])
def test_a_bracket_holds_the_optimum(problem, horizon):
    # 1 - 1e-4: some 4 standard errors.
    found = optimal_bracket(problem, horizon, num_samples=150, confidence=0.9999)
    assert found.lower < optimal_value(problem, horizon) < found.upper


def test_of_sure_arms_and_of_one_pull_the_bound_is_the_value():
    sure = bernoulli(Beta([700.0, 300.0], [300.0, 700.0]))  # no future teaches anything
    single = bernoulli(Beta([1.0, 3.0], 1.0))
    moved = np.sqrt(0.7 * 0.3 / 1001 * 10 / 1010)  # deviation of a mean after 10 pulls: 50 totals
    allowed = 4 * 10 * moved / np.sqrt(50)
    assert optimal_bracket(sure, 10, num_samples=50).upper == pytest.approx(7.0, abs=allowed)
    assert optimal_bracket(single, 1, num_samples=50).upper == pytest.approx(0.75, abs=1e-9)


def test_a_seed_gives_one_bracket():
    found = [optimal_bracket(UNIFORM, 20, num_samples=50, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_a_policy_is_stored_and_mended_wherever_its_file_is_damaged(folder):
    states = np.array([[3, 2], [1, 4]]), np.array([[1, 2], [1, 1]])

    def choices(horizon=40):
        return in_states("optimal", UNIFORM, *states, horizon=horizon).act().tolist()

    first = choices()
    (path,) = folder.rglob("output.pkl")
    whole = path.read_bytes()
    assert choices() == first and path.read_bytes() == whole
    places = np.random.default_rng(0).integers(len(whole), size=15)
    damaged = [whole[: len(whole) // 2], b"", b"not a policy"]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in places]
    for data in damaged:
        path.write_bytes(data)
        assert choices() == first and path.read_bytes() == whole
    choices(horizon=39)
    assert len(list(folder.rglob("output.pkl"))) == 2  # another horizon has another file


def test_without_room_for_a_file_the_policy_is_there_all_the_same(folder, monkeypatch):
    (folder / "file").write_text("no folder")
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(folder / "file"))
    agent = started("optimal", bernoulli(Beta(1.0, 1.0), 3), 1, horizon=9)
    assert agent.act().tolist() == [0]
    agent.warm_start([3, 2, 2], [0.0, 2.0, 2.0])
    assert agent.act().tolist() == [1]


def test_late_rewards_that_would_take_too_long_a_policy_are_refused_in_one_sentence():
    agent = started("optimal", UNIFORM, 2, horizon=300)
    agent.observe(agent.act(), [1.0, 0.0])
    agent.act(), agent.observe([0, 1], [1.0, 0.0])  # in time
    agent.act()
    told = "leave few enough .*, 299, got 300; take Finite"
    with pytest.raises(ValueError, match=told) as caught:
        agent.act()
    assert str(caught.value).count(". ") == 0


SIX = bernoulli(Beta(1.0, 1.0), 6)
REFUSED = [
    (lambda: make_agent("optimal", UNIFORM), "optimal options must have the key 'horizon'"),
    (lambda: BayesOptimal(UNIFORM, horizon=3000), "at most 7 GB with 2 arms, not 58.6 GB, got 300"),
    (lambda: BayesOptimal(DEPENDENT, horizon=9), "prior must offer arm_log_dens"),
    (lambda: optimal_value(UNIFORM, 0), "horizon must be a positive integer, got 0"),
    (lambda: optimal_value(UNIFORM, 10**7), "optimal_bracket"),
    (lambda: optimal_value(SIX, 10), "at most 5 arms", "optimal_bracket"),
    (lambda: optimal_value(NORMAL, 10), "must be Bernoulli"),
    (lambda: optimal_value(DEPENDENT, 10), "independent a priori"),
    (lambda: optimal_bracket(UNIFORM, 5, agent=ExactThompson(UNLIKE)), "agent must be one for"),
    (lambda: expected_regret(UNIFORM, "thomson", 5), "nearest known one is 'thompson'"),
    (lambda: expected_regret(UNIFORM, "epsilon_greedy", 5, epsilom=0.2), "one is 'epsilon'"),
    (lambda: expected_regret(UNIFORM, lambda n, s: n * 0.0, 5), "probabilities that sum to 1"),
    (lambda: expected_regret(UNIFORM, lambda n, s: s[:, 0], 5), "return probabilities (1, 2)"),
    (lambda: expected_regret(UNIFORM, lambda n, s: 0 * s + [-0.5, 1.5], 5), "got [-0.5, 1.5]"),
    (lambda: expected_regret(UNIFORM, lambda n, s: 0 * s + [0.5, 0.505], 5), "got [0.5, 0.505]"),
    (lambda: expected_regret(UNIFORM, "random", 10**6), "horizon must give at most 1e+09 states"),
    (lambda: expected_regret(UNIFORM, UCB1(UNIFORM, discount=0.5), 5), "without discount or win"),
    (lambda: expected_regret(UNIFORM, UCB1(UNIFORM, window=2), 5), "without discount or window"),
    (
        lambda: expected_regret(UNIFORM, make_agent("racing_paper", UNIFORM), 5),
        *("whose action_probabilities are those of act", "play it by bandit_gym.rollout"),
    ),
    (lambda: expected_regret(UNIFORM, UCB1(SIX), 5), "rule must be for 2 arms, ", "got 6"),
    (lambda: expected_regret(UNIFORM, 5, 5), "a name, an agent, or a function of", "got 5"),
    (lambda: expected_regret(UNIFORM, UCB1, 5), "a name, an agent, or a function of", "got <class"),
]


def test_what_is_out_of_reach_is_refused_in_one_sentence():
    check_refusals(lambda attempt: attempt(), REFUSED)
