"""Each rule pulls the arm that its formula says, worked out anew in plain NumPy and SciPy."""

import copy
import pickle
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from families import CONJUGATES, DensityOnly, typical_mean
from geometric import Geometric
from gymnasium.vector import AutoresetMode
from pairwise import pairwise
from scipy import optimize, stats
from scipy.special import betaln, softmax
from surface import assert_played, started

import agents
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    HierarchicalBeta,
    InverseGamma,
    Normal,
    NormalInverseGamma,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem, ContextualProblem
from bandit_gym.wrappers import deliver, wrap

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
GAUSSIAN = BanditProblem(Gaussian(0.5), Normal(0.0, 1.0), 3)
INFORMED = BanditProblem(Bernoulli(), Beta([2.0, 8.0, 5.0], [3.0, 2.0, 5.0]), 3)
FAMILIES = {each.likelihood.name: each for each in CONJUGATES}
PROBLEMS = {name: BanditProblem(*each[:2], 3) for name, each in FAMILIES.items()}
NUM_LANES, HORIZON = 25, 5000


def histories(problem):
    """Return (N, K) pulls of 1 to 300, about as many in total for each arm, and rewards."""
    rng = np.random.default_rng(4)
    counts = np.ceil(300 ** rng.random((NUM_LANES, 3))).astype(int)
    means = rng.uniform(-0.1, 0.1, (NUM_LANES, 3)) + typical_mean(problem.likelihood)
    sums = np.zeros(counts.shape)
    for place in np.ndindex(counts.shape):
        size = counts[place]
        sums[place] = problem.likelihood.sample(np.full(size, means[place]), rng.random(size)).sum()
    return counts, sums


def log_t(counts):
    return np.log(counts.sum(axis=1, keepdims=True))


def ucb1(counts, sums, scale=1.0):
    return sums / counts + scale * np.sqrt(2 * log_t(counts) / counts)


def ucb_tuned(counts, sums):
    average = sums / counts
    variance = average * (1 - average) + np.sqrt(2 * log_t(counts) / counts)
    return average + np.sqrt(log_t(counts) / counts * np.minimum(0.25, variance))


def moss(counts, sums):
    return sums / counts + np.sqrt(np.log(np.maximum(HORIZON / 3 / counts, 1)) / counts)


def kl_ucb(family, c=0.0):
    """The largest mean whose divergence is small enough: a ratio of likelihoods, from SciPy."""
    most = min(family.likelihood.support[1], 1e3) - 1e-12

    def bound(count, total, level):
        laws = family.posterior(count, total), family.posterior(0, 0)
        p = max(total / count, np.nextafter(family.likelihood.support[0], 1e3))

        def log_likelihood(q):
            after, before = (law.logpdf(q) for law in laws)
            return after - before

        highest = log_likelihood(min(p, most))

        def gap(q):
            return highest - log_likelihood(q) - level

        return most if gap(most) < 0 else optimize.brentq(gap, p, most, xtol=1e-13)

    def scores(counts, sums):
        levels = log_t(counts) + c * np.log(log_t(counts))
        return np.vectorize(bound)(counts, sums, levels)

    return scores


def bayes_ucb(law):
    def scores(counts, sums):
        return law(counts, sums).ppf(1 - 1 / (counts.sum(axis=1, keepdims=True) + 1))

    return scores


def beta_after(alpha, beta):
    return lambda n, s: stats.beta(alpha + s, beta + n - s)


def posterior_mean(counts, sums):
    alpha, beta = INFORMED.prior.alpha, INFORMED.prior.beta
    return (alpha + sums) / (np.add(alpha, beta) + counts)


def knowledge_gradient(counts, sums):
    """What one more pull is expected to raise the best mean by, for all decisions that are left."""
    a, b = 1 + sums, 1 + counts - sums
    mean, left = a / (a + b), HORIZON - 1
    rival = np.array([[np.delete(row, i).max() for i in range(3)] for row in mean])
    raised, lowered = (a + 1) / (a + b + 1), a / (a + b + 1)
    after = mean * np.maximum(raised, rival) + (1 - mean) * np.maximum(lowered, rival)
    return mean + left * (after - np.maximum(mean, rival))


def gaussian_knowledge_gradient(counts, sums):
    precision, left = 1 + 4 * counts, HORIZON - 1
    mean = 4 * sums / precision
    rival = np.array([[np.delete(row, i).max() for i in range(3)] for row in mean])
    std = np.sqrt(1 / precision - 1 / (precision + 4))  # of the mean after one more pull
    z = -np.abs(mean - rival) / std
    return mean + left * std * (stats.norm.pdf(z) + z * stats.norm.cdf(z))


def optimistic_gittins(counts, sums):
    """v = E max(x, discounted v), with a discount of 1 - 1 / (100 + t)."""

    def index(a, b, discount):
        law, other = stats.beta(a, b), stats.beta(a + 1, b)

        def gap(v):
            shortfall = v * law.cdf(v) - a / (a + b) * other.cdf(v)
            return v - a / (a + b) - discount * shortfall

        return optimize.brentq(gap, a / (a + b), 1)

    discounts = 1 - 1 / (100 + counts.sum(axis=1, keepdims=True) + 1)
    return np.vectorize(index)(1 + sums, 1 + counts - sums, discounts)


REFERENCE, BY_NAME = {"prior": "reference"}, {n: f.posterior for n, f in FAMILIES.items()}
RULES = {
    "greedy": ("greedy", UNIFORM, {"estimate": "average"}, lambda n, s: s / n),
    "greedy, posterior": ("greedy", INFORMED, {"estimate": "posterior"}, posterior_mean),
    "ucb1": ("ucb1", UNIFORM, {}, ucb1),
    "ucb1, Poisson": (*("ucb1", PROBLEMS["poisson"], {"scale": 2.0}), lambda n, s: ucb1(n, s, 2.0)),
    "ucb_tuned": ("ucb_tuned", UNIFORM, {}, ucb_tuned),
    "moss": ("moss", UNIFORM, {"horizon": HORIZON}, moss),
    **{f"kl_ucb, {n}": ("kl_ucb", PROBLEMS[n], {}, kl_ucb(f)) for n, f in FAMILIES.items()},
    "kl_ucb, c = 3": ("kl_ucb", UNIFORM, {"c": 3.0}, kl_ucb(CONJUGATES[0], 3.0)),
    "bayes_ucb": ("bayes_ucb", INFORMED, {}, bayes_ucb(beta_after(*vars(INFORMED.prior).values()))),
    "bayes_ucb, reference": ("bayes_ucb", INFORMED, REFERENCE, bayes_ucb(beta_after(1.0, 1.0))),
    **{f"bayes_ucb, {n}": ("bayes_ucb", PROBLEMS[n], {}, bayes_ucb(BY_NAME[n])) for n in FAMILIES},
    "knowledge_gradient": (
        *("knowledge_gradient", UNIFORM, {"horizon": HORIZON, "variant": "kg"}),
        knowledge_gradient,
    ),
    "knowledge_gradient, Gaussian": (
        *("knowledge_gradient", GAUSSIAN, {"horizon": HORIZON, "variant": "kg"}),
        gaussian_knowledge_gradient,
    ),
    "optimistic_gittins": ("optimistic_gittins", UNIFORM, {}, optimistic_gittins),
}


@pytest.mark.parametrize("name", RULES)
def test_the_arm_of_the_largest_score_is_pulled(name):
    agent_name, problem, options, scores = RULES[name]
    counts, sums = histories(problem)
    agent = started(agent_name, problem, NUM_LANES, counts, sums, **options)
    found = scores(counts, sums)
    np.testing.assert_allclose(agent._scores(), found, rtol=1e-9)
    second, first = np.sort(found, axis=1)[:, -2:].T
    is_clear = first - second > 1e-6  # quadratures and searches decide the others
    assert is_clear.mean() > 0.9
    best = found.argmax(axis=1)
    assert (agent.act()[is_clear] == best[is_clear]).all()
    assert len(set(best.tolist())) == 3  # no arm is it always
    assert (agent.action_probabilities()[np.arange(NUM_LANES), best][is_clear] == 1.0).all()


def test_an_infinite_posterior_mean_comes_first_and_is_no_error():
    problem = BanditProblem(Exponential(), InverseGamma(0.5, 1.0), 2)
    for name in ("greedy", "optimistic_gittins", "finite_horizon_gittins"):
        agent = started(name, problem, 40, [0, 9], [0.0, 900.0])
        assert (agent.act() == 0).all(), name
        assert np.isposinf(agent._scores()).tolist() == [[True, False]] * 40, name


def test_epsilon_is_spread_over_all_arms():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)
    options = {"epsilon": 0.2, "estimate": "average"}
    agent = started("epsilon_greedy", problem, None, [1] * 4, [0.0, 1.0, 0.0, 0.0], **options)
    np.testing.assert_allclose(agent.action_probabilities(), [0.05, 0.85, 0.05, 0.05])


def test_arms_without_data_come_first_and_are_divided_by_nothing():
    for name in ("ucb1", "kl_ucb", "ucb_tuned", "moss"):
        agent = started(name, UNIFORM, 2000, [90, 0, 0], [90, 0, 0])
        with np.errstate(all="raise"):
            share = (agent.act() == 1).mean()
        assert abs(share - 0.5) <= 4 * np.sqrt(0.25 / 2000), name


@pytest.mark.parametrize("beta", [0.5, 0.8])
def test_top_two_follows_russos_probabilities(beta):
    """Shares p_i (beta + (1 - beta) sum_{j != i} p_j / (1 - p_j)), p the chances to be best."""
    counts, sums = [8, 5, 3], [4.0, 2.0, 2.0]
    best = action_probabilities(UNIFORM, counts, sums)
    odds = best / (1 - best)
    expected = best * (beta + (1 - beta) * (odds.sum() - odds))
    agent = started("top_two", UNIFORM, 20_000, counts, sums, beta=beta)
    assert_played(agent.act(), expected)


def moments(counts, sums, alpha=1, beta=1):
    """Return (K,) chances p_a to be best and (K, K) means M_ai of arm i if a is, on a grid."""
    x = np.linspace(0, 1, 20_001)
    density = stats.beta(alpha + sums[:, None], beta + (counts - sums)[:, None]).pdf(x)
    below = np.array([np.concatenate([[0], np.cumsum(d[1:] + d[:-1]) / 4e4]) for d in density])
    part = np.array([np.concatenate([[0], np.cumsum(d[1:] + d[:-1]) / 4e4]) for d in density * x])
    best, means = np.zeros(3), np.zeros((3, 3))
    for a in range(3):
        others = [i for i in range(3) if i != a]
        best[a] = np.trapezoid(density[a] * below[others].prod(axis=0), x)
        means[a, a] = np.trapezoid(x * density[a] * below[others].prod(axis=0), x)
        for i in others:
            (third,) = {0, 1, 2} - {a, i}
            means[a, i] = np.trapezoid(density[a] * part[i] * below[third], x)
    return best, means / best[:, None]


@pytest.mark.parametrize("gain", ["variance", "information"])
def test_information_directed_has_the_least_ratio_of_all_policies(gain, rng):
    """Of squared regret to gain, where both are worked out by trapezoids; to 1 %."""
    laws = rng.dirichlet(np.full(3, 0.3), size=20_000)
    for counts, sums in ([8, 5, 3], [4, 2, 2]), ([40, 30, 2], [24, 15, 1]), ([3, 0, 1], [2, 0, 0]):
        counts, sums = np.array(counts), np.array(sums, dtype=float)
        best, means = moments(counts, sums)
        average = (1 + sums) / (2 + counts)
        gaps = best @ (np.diag(means)[:, None] - means)
        if gain == "variance":
            gains = best @ (means - average) ** 2
        else:
            told = means * np.log(means / average)
            gains = best @ (told + (1 - means) * np.log((1 - means) / (1 - average)))
        found = started("information_directed", UNIFORM, None, counts, sums, gain=gain)
        law = found.action_probabilities()
        least = ((laws @ gaps) ** 2 / (laws @ gains)).min()
        assert (law @ gaps) ** 2 / (law @ gains) <= least * 1.01
        assert np.count_nonzero(law > 1e-6) <= 2


def test_best_arm_moments_of_a_mixture_are_those_of_its_components_by_weight():
    """The mean of arm i if a is best, over levels as likely as a is best under them."""
    prior = HierarchicalBeta([2.0, 8.0], [6.0, 4.0], [0.2, 0.8])
    counts, sums = np.array([8, 5, 3]), np.array([4.0, 2.0, 2.0])
    both = list(zip(prior.alphas, prior.betas, strict=True))
    evidence = [betaln(a + sums, b + counts - sums) - betaln(a, b) for a, b in both]
    weights = softmax(np.log(prior.weights) + np.sum(evidence, axis=1))
    best, means = zip(*(moments(counts, sums, a, b) for a, b in both), strict=True)
    chances = weights @ best
    joint = np.einsum("c,ca,cai->ai", weights, best, means) / chances[:, None]
    problem = BanditProblem(Bernoulli(), prior, 3)
    agent = started("information_directed", problem, 1, counts, sums)
    found, expected = agent.belief().best_arm_moments()
    np.testing.assert_allclose(found[0], chances, atol=1e-5)
    np.testing.assert_allclose(expected[0], joint, atol=1e-5)


def test_kg_star_looks_as_many_pulls_ahead_as_is_worth_most():
    """By sums over all outcomes of m = 1 ... 40 pulls; the agent looks at some m, to 3 %."""
    left, rng = 40, np.random.default_rng(0)
    counts = rng.multinomial(60, [0.5, 0.3, 0.2], NUM_LANES)
    sums = rng.binomial(counts, 0.5)
    a, b = 1 + sums, 1 + counts - sums
    mean = a / (a + b)
    gains = np.zeros(mean.shape)
    for lane, arm in np.ndindex(mean.shape):
        rival = np.delete(mean[lane], arm).max()
        for m in range(1, left + 1):
            s = np.arange(m + 1)
            after = np.maximum((a[lane, arm] + s) / (a + b + m)[lane, arm], rival)
            told = stats.betabinom.pmf(s, m, a[lane, arm], b[lane, arm]) @ after
            gain = (told - max(mean[lane, arm], rival)) / m
            gains[lane, arm] = max(gains[lane, arm], gain)
    scores = mean + left * gains
    second, first = np.sort(scores, axis=1)[:, -2:].T
    is_clear = first - second > 0.03 * left * gains.max(axis=1)
    options = {"horizon": 1 + left, "variant": "kg*"}
    agent = started("knowledge_gradient", UNIFORM, NUM_LANES, counts, sums, **options)
    assert is_clear.mean() > 0.6
    assert (agent.act() == scores.argmax(axis=1))[is_clear].all()


UNIFORM_2 = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


WITH_HORIZON = {
    "kg": ("knowledge_gradient", {}),
    "kg*": ("knowledge_gradient", {"variant": "kg*"}),
    "finite_horizon_gittins": ("finite_horizon_gittins", {}),
    "moss": ("moss", {}),
    "information_relaxation": ("information_relaxation", {}),
    "optimal": ("optimal", {}),
}
every_horizon_rule = pytest.mark.parametrize("rule", WITH_HORIZON)


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path / "policies"))


def with_horizon(rule, num_envs, horizon):
    name, options = WITH_HORIZON[rule]
    return started(name, UNIFORM_2, num_envs, **options, horizon=horizon)


@pytest.mark.usefixtures("_folder")
@every_horizon_rule
def test_the_clock_counts_an_agents_own_decisions_and_nothing_else(rule, tmp_path):
    agent = with_horizon(rule, 3, 30)
    agent.warm_start([2, 3], [1.0, 2.0])
    agent.observe([0, 1, 1], [1.0, 0.0, 1.0])  # logged
    agent.action_probabilities(), copy.copy(agent).act()
    if rule != "moss" and rule != "optimal":
        agent.posterior().mean()
    assert agent.lane_decisions.tolist() == [0, 0, 0]
    agent.act(), agent.act()  # also where what was chosen is not played
    agent.observe([0, 0, 0], [1.0, 0.0, 0.0], mask=np.array([True, False, False]))
    agent.reset_lanes(np.array([False, False, True]))
    assert agent.lane_decisions.tolist() == [2, 2, 0]
    agent.save(tmp_path / "agent")
    for twin in pickle.loads(pickle.dumps(agent)), agents.load(tmp_path / "agent"):
        twin.act()
        assert twin.lane_decisions.tolist() == [3, 3, 1]
    assert agent.lane_decisions.tolist() == [2, 2, 0]
    agent.reset(2)
    assert agent.lane_decisions.tolist() == [0, 0]


@every_horizon_rule
def test_a_horizon_that_cannot_be_counted_is_one_sentence(rule):
    for horizon, text in [(0, "a positive integer, got 0"), (10**400, "at most .*, got 1000")]:
        with pytest.raises(ValueError, match=f"horizon must be {text}"):
            with_horizon(rule, 1, horizon)


@pytest.mark.usefixtures("_folder")
@every_horizon_rule
def test_earlier_data_leave_all_decisions_of_the_horizon(rule):
    agent = with_horizon(rule, None, 20)
    agent.warm_start([60, 60], [30.0, 29.0])
    for _ in range(20):
        agent.observe(agent.act(), 1.0)
    refusal = "horizon must be more than the 20 decisions already made, got 20; build"
    with pytest.raises(ValueError, match=refusal) as caught:
        agent.act()
    assert str(caught.value).count(". ") == 0


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    ("rule", "mode", "is_late"), pairwise(product(WITH_HORIZON, AutoresetMode, (False, True)))
)
def test_an_act_that_autoreset_ignores_is_no_decision(rule, mode, is_late):
    """Lane 0 begins anew in the second step; all decide as often as their environment steps."""
    delay = {"name": "uniform", "low": 0, "high": 3}
    options = {"num_arms": 2, "max_episode_steps": 6, "autoreset_mode": mode}
    env = gym.make_vec("bandit_gym:BernoulliBandit-v0", num_envs=3, **options)
    env = wrap(env, [{"name": "DelayedReward", "delay": delay}] * is_late)
    agent, played = with_horizon(rule, 3, 6), np.zeros(3, dtype=int)
    env.reset(seed=0)
    has_ended = np.zeros(3, dtype=bool)
    for step in range(30):
        is_ignored = has_ended & (mode is AutoresetMode.NEXT_STEP)
        actions = agent.act()
        _, rewards, terminated, truncated, info = env.step(actions)
        if not is_late:
            agent.observe(actions, rewards, mask=~is_ignored)
        else:
            deliver(agent, info)
            if "final_info" in info:
                deliver(agent, info["final_info"])
        played += ~is_ignored
        assert agent.lane_decisions.tolist() == played.tolist() and played.max() <= 6
        has_ended = terminated | truncated
        is_new = has_ended | ((np.arange(3) == 0) & (step == 1))
        if is_new.any() and (mode is AutoresetMode.DISABLED or step == 1):
            env.reset(options={"reset_mask": is_new})
        agent.reset_lanes(is_new)
        played[is_new] = 0


@pytest.mark.parametrize("posterior", ["exact", "smc", "racing"])
def test_quantiles_of_level_0_are_the_ends_of_what_priors_allow(posterior):
    """At the first decision of `BayesUCB`; they were the least draws, or ends of tables."""
    for prior in (TruncatedNormal([0.5, 0.3, 0.2], 0.1), Beta([2.0, 3.0, 4.0], 2.0)):
        agent = started("bayes_ucb", BanditProblem(Bernoulli(), prior, 3), posterior=posterior)
        np.testing.assert_allclose(agent.action_probabilities(), 1 / 3)
        assert agent.action_probabilities(costs=[0.1, 0.0, 0.2]).tolist() == [0.0, 1.0, 0.0]


def test_bayes_ucb_tells_arms_apart_after_as_many_rewards_as_are_taken():
    """1 - 1 / (t + 1) is 1 to a computer, and the quantiles of that are all the same."""
    problem, counts = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), np.array([2**53, 2**53])
    agent = started("bayes_ucb", problem, None, counts, [2.0**52, 2.0**51])
    assert agent.action_probabilities().tolist() == [1.0, 0.0]


def test_equal_features_have_equal_means():
    """Products of matrices round equal rows otherwise, so that one twin had all of the chance."""
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 3, 3)
    agent, rng = started("greedy", problem, None), np.random.default_rng(0)
    for _ in range(30):
        agent.observe(0, rng.integers(2), observation=rng.normal(size=3))
    for num_arms in (3, 5, 6, 10):
        twins = np.tile(rng.normal(size=3), (num_arms, 1))
        np.testing.assert_allclose(agent.action_probabilities(twins), 1 / num_arms)


def test_greedy_follows_averages_where_there_is_no_posterior():
    problem = BanditProblem(Bernoulli(), DensityOnly(Beta(1.0, 1.0)), 2)
    agent = started("greedy", problem, 40, [1, 100], [1, 60])
    assert (agent.act() == 0).all() and agent.diagnostics() == {}


def test_an_arm_whose_pulls_are_forgotten_is_one_never_pulled():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = started("greedy", problem, None, estimate="average", discount=0.5)
    agent.observe(0, 1.0)
    for _ in range(1060):  # after 1,022 halvings a count would lose digits
        agent.observe(1, 1.0)
    assert agent.counts[0] == 0 and agent.act() == 0


def test_a_forgotten_count_does_not_stick_at_the_least_number():
    """There .7 of it rounds back to it: such an arm had a mean of 0 / 0, which rules refused."""
    known = BanditProblem(Gaussian(10.0), Normal(0.0, 1.0), 2)
    unknown = BanditProblem(Gaussian(None), NormalInverseGamma(), 2)
    for problem, options in ((known, {"prior": "reference"}), (unknown, {})):
        agent = started("exact", problem, discount=0.7, **options)
        for _ in range(2):
            agent.observe(0, -5.0)
        for _ in range(2200):
            agent.observe(1, -3.0)  # of the first one 1e-340 would be left
        assert agent.counts[0] == agent.sums[0] == 0
        squares = agent.evidence.squares
        assert agent.act(available=[True, True]) == 0 if squares is None else squares[0, 0] == 0


def test_greedy_on_the_posterior_says_where_that_is_unsure_of_itself():
    far = TruncatedNormal(0.0, 1.0, -1.0, 1.0)
    for total in (5e13, 5.0):  # the larger leaves no table that fits
        agent = started("greedy", BanditProblem(Gaussian(), far, 3), 2, [5, 5, 0], [total, 2.0, 0])
        agent.act()
        assert agent.diagnostics()["is_unreliable"].tolist() == [total > 5.0] * 2


def test_challenger_of_a_sure_leader_is_the_arm_hardest_to_tell_from_it():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    actions = started("top_two", problem, 200, [9000, 9000, 100], [8100, 4500, 50]).act()
    # both others have a mean of 1/2; the posterior of the one pulled less is wider
    assert set(actions.tolist()) == {0, 2}
    assert abs((actions == 0).mean() - 0.5) <= 4 * np.sqrt(0.25 / 200)


def test_leader_without_an_expectation_has_a_challenger():
    problem = BanditProblem(Exponential(), InverseGamma(0.5, 1.0), 2)
    actions = started("top_two", problem, 50, [0, 9], [0.0, 1e-9], max_draws=0).act()
    assert set(actions.tolist()) == {0, 1}


def test_probabilities_under_a_vague_prior_sum_to_one():
    problem = BanditProblem(Poisson(), Gamma(1e-3, 1e-3), 3)
    agent = started("top_two", problem, None, [1, 1, 1], [8.0, 0.0, 1.0])
    assert agent.action_probabilities() == pytest.approx(np.array([0.5, 0.0, 0.5]), abs=1e-3)


class Bounded(Geometric):
    """Its log-likelihood ratio to ever larger means is bounded, as an inverse Gaussian's is."""

    def log_likelihood(self, means, counts, sums):
        m = np.asarray(means, dtype=float)
        with np.errstate(all="ignore"):
            value = (counts - sums / (2 * m)) / m
        return np.where(self.contains(m) & (m > 0), value, -np.inf)

    def reward_std(self, means):
        return np.array(means, dtype=float)


class Lost(Geometric):
    """Its deviation is lost in rounding next to a mean of 0."""

    def reward_std(self, means):
        return np.where(np.asarray(means) < 1e-100, np.inf, super().reward_std(means))


def act(likelihood, counts, sums, num_envs=50):
    problem = BanditProblem(likelihood, Gamma(2.0, 1.0), 3)
    return started("kl_ucb", problem, num_envs, counts, sums).act()


@pytest.mark.parametrize("likelihood", [Geometric(), Lost()], ids=["known", "lost"])
def test_bound_of_an_arm_that_paid_nothing_is_above_its_average(likelihood):
    # kl(0, q) = log(1 + q): the bound exp(log(22) / 2) - 1 = 3.7 beats that of 3 in 10 pulls
    assert (act(likelihood, [2, 10, 10], [0, 3, 3]) == 0).all()
    # and exp(log(220) / 200) - 1 = 0.03 does not
    assert (act(likelihood, [200, 10, 10], [0, 3, 3]) != 0).all()


def test_bound_that_no_data_reach_is_infinite():
    # the ratio to an infinite mean is n / (2 average): 0.7, 17 and 17, where log t is 5.3
    assert (act(Bounded(), [2, 100, 100], [3, 300, 300]) == 0).all()


def test_arms_without_a_bound_are_pulled_evenly():
    # 0.7 and 1.1, both below log t = 4.6: neither pair of data speaks against any mean
    actions = act(Bounded(), [2, 5, 100], [3, 11, 300], num_envs=400)
    share = (actions == 0).mean()
    assert set(actions.tolist()) == {0, 1}
    assert abs(share - 0.5) <= 4 * np.sqrt(0.25 / 400)


def test_arm_pulled_more_than_its_share_has_no_bonus():
    # 100 pulls are more than T / K = 65.5; the other's bound is 0.6 + sqrt(log(2.18) / 30) = 0.761
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    for total, arm in (77, 0), (75, 1):
        agent = started("moss", problem, 20, [100, 30], [total, 18], horizon=131)
        assert (agent.act() == arm).all()
