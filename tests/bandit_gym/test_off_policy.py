"""Values of policies from logs."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from refusals import check_refusals
from surface import started

from agents import ExactThompson
from bandit_gym.contexts import disjoint
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.logs import Log, fit_propensities
from bandit_gym.off_policy import WEIGHTED, evaluate, replay
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem, ContextualProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
MEANS = np.array([0.1, 0.3, 0.5])
LOGGING, TARGET = np.array([0.2, 0.5, 0.3]), np.array([0, 0.2, 0.8])


def make_log(num_rows=4000):
    rng = np.random.default_rng(0)
    actions = rng.choice(3, num_rows, p=LOGGING)
    rewards = (rng.random(num_rows) < MEANS[actions]).astype(float)
    return Log(actions, rewards, (0, 1, 2), LOGGING[actions])


def make_changing():
    """Return propensities of the log that were lower in its first half."""
    log = make_log()
    return np.where(np.arange(len(log)) < 2000, 0.8, 1.2) * log.propensities


@pytest.mark.parametrize("estimator", WEIGHTED)
def test_the_value_of_another_policy_is_found(estimator):
    found = evaluate(TARGET, make_log(), estimator)
    # The variance of w r is at most E[w^2 r] = sum of target^2 / logging * means.
    tolerance = 4 * (TARGET**2 / LOGGING @ MEANS / 4000) ** 0.5
    assert abs(found.value - TARGET @ MEANS) < tolerance
    assert found.low < found.value < found.high


def test_the_doubly_robust_estimate_mends_what_its_model_misses():
    rng, num_rows = np.random.default_rng(0), 4000
    visitors = rng.integers(-1, 2, num_rows)
    first = np.where(visitors == 0, 0.8, 0.1)  # probability of arm 0, which pays visitor^2
    actions = (rng.random(num_rows) >= first).astype(np.int64)
    rewards = np.where(actions == 0, visitors**2, 0.0)
    propensities = np.where(actions == 0, first, 1 - first)
    log = Log(actions, rewards, (0, 1), propensities, visitors[:, None].astype(float))
    found = evaluate([1.0, 0.0], log, "dr", logger="frozen")
    # A line predicts about .2 of arm 0, its mean in the log; a correction has a second moment of
    # at most E[1 / first] = (2 * 10 + 1.25) / 3.
    assert abs(found.value - 2 / 3) < 4 * (21.25 / 3 / num_rows) ** 0.5


def test_the_doubly_robust_estimate_has_no_noise_where_its_model_is_right():
    rng = np.random.default_rng(0)
    visitors, actions = rng.normal(size=(100, 1)), rng.integers(2, size=100)
    paid = np.hstack([1 + visitors, 3 - 2 * visitors])
    log = Log(actions, paid[range(100), actions], (0, 1), np.full(100, 0.5), 1e6 + visitors)
    assert evaluate([0.25, 0.75], log, "dr").value == pytest.approx((paid @ [0.25, 0.75]).mean())


def test_a_log_without_propensities_and_what_is_no_policy_are_refused():
    rows = [
        ([0.5, 0.5], Log([0, 1], [0.0, 1.0], (0, 1)), "fit_propensities"),
        ([1.5, -0.5, 0.0], make_log(), "policy must be probabilities of at least 0, got -0.5"),
        (ExactThompson, make_log(), "policy must be an agent, not its class, got"),
        (pd.Series(TARGET, ["0", "1", "2"]), make_log(), "policy must have the labels"),
        (TARGET, pd.DataFrame(), "log must be a Log, got Empty DataFrame"),
    ]
    check_refusals(lambda policy, log: evaluate(policy, log), rows)


def test_a_learned_policy_and_a_log_of_one_are_warned_of():
    log = make_log()
    agent = started("exact", PROBLEM)
    agent.observe_log(log)
    with pytest.warns(UserWarning, match="policy has learned from 4,000 rewards"):
        evaluate(agent, log)
    with pytest.warns(UserWarning, match="propensities that vary for an arm"):
        evaluate(TARGET, Log(log.actions, log.rewards, log.arms, make_changing()))


def test_logs_whose_policy_may_have_learned_are_warned_of_once_unless_it_is_said():
    log, changing = make_log(), make_changing()
    features = np.random.default_rng(1).normal(size=(len(log), 1))
    for visitors in (None, features):
        varied = Log(log.actions, log.rewards, log.arms, changing, visitors)
        fixed = Log(log.actions, log.rewards, log.arms, log.propensities, visitors)
        for each, logger, num_warnings in [
            (varied, None, 1),
            (varied, "learned", 1),
            (varied, "frozen", 0),
            (fixed, None, 0),
            (fixed, "learned", 1),
        ]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                evaluate(TARGET, each, "ips", logger=logger)
            assert [one.filename for one in caught] == [__file__] * num_warnings
    with pytest.raises(ValueError, match="logger must be one of 'learned', 'frozen', got 'fixed'"):
        evaluate(TARGET, log, logger="fixed")


@pytest.mark.parametrize("estimator", WEIGHTED)
@pytest.mark.parametrize("least", [1e-12, 1e-300])
def test_a_weight_that_decides_alone_is_named_and_can_be_cut(estimator, least):
    log = make_log(2000)
    row = int(np.flatnonzero(log.actions == 2)[100])
    propensities = log.propensities.copy()
    propensities[row] = least
    features = np.random.default_rng(1).normal(size=(2000, 1))
    log = Log(log.actions, log.rewards, log.arms, propensities, features)
    with pytest.warns(UserWarning, match=f"row {row} of the log, from 0, has 100 % of all weight"):
        alone = evaluate(TARGET, log, estimator, logger="frozen")
    assert alone.effective_sample_size == pytest.approx(1)
    assert np.isnan([alone.low, alone.high]).all()
    cut = evaluate(TARGET, log, estimator, clip=5, logger="frozen")
    assert cut.num_clipped == 1 and alone.num_clipped == 0
    # The cut row moves a mean of 2,000 by at most its weight, 5 / 2000, and its true one, 8/3.
    usual = evaluate(TARGET, make_log(2000), estimator)
    assert usual.low - 0.004 < cut.value < usual.high + 0.004


@pytest.mark.filterwarnings("ignore:weights average")
def test_weights_are_cut_to_the_largest_one():
    log = Log([0, 1] * 20, [1.0, 0.0] * 20, (0, 1), [0.1, 0.9] * 20, np.arange(40.0)[:, None] % 2)
    # Weights 5 and 5/9; cut to 2, which leaves a mean of 2 / 2.
    cut = evaluate([0.5, 0.5], log, "ips", clip=2)
    assert cut.value == pytest.approx(1.0) and cut.num_clipped == 20
    assert evaluate([0.5, 0.5], log, "ips", clip=5).num_clipped == 0
    with pytest.raises(ValueError, match="clip must be a finite number above 0, got 0"):
        evaluate([0.5, 0.5], log, clip=0)


@pytest.mark.parametrize("estimator", WEIGHTED)
def test_sizes_and_squares_do_not_overflow(estimator):
    rng = np.random.default_rng(0)
    actions, rewards = rng.integers(2, size=400), rng.normal(size=400)
    usual = evaluate([0.5, 0.5], Log(actions, rewards, (0, 1), np.full(400, 0.5)), estimator)
    scale = 2.0**600
    for rare, factor in ((1 / scale, 1.0), (0.5, scale)):
        log = Log(actions, factor * rewards, (0, 1), np.full(400, rare))
        given = [1.0, 0.0] if rare < 0.5 else [0.5, 0.5]
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", "weights average")
            value = evaluate(given, log, estimator)
        assert np.isfinite([value.value, value.low, value.high]).all()
        if rare == 0.5:
            assert value.value == pytest.approx(scale * usual.value)
            assert value.high - value.low == pytest.approx(scale * (usual.high - usual.low))
    least = Log(actions, rewards, (0, 1), np.full(400, 5e-324))
    refusal = pytest.raises(ValueError, match="propensities must give finite weights, got 5e-324")
    with pytest.warns(UserWarning, match="weights average"), refusal:
        evaluate([0.5, 0.5], least, estimator)
    with pytest.warns(UserWarning, match="weights average"):
        assert evaluate([0.5, 0.5], least, "snips", clip=3).num_clipped == 400


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:(log has propensities|weights average)")
def test_coverage_on_logs_of_thompson_sampling_is_what_the_page_says():
    """Shares of the intervals of 300 logs, to four deviations; the page has more than 500 each."""
    num_logs, num_steps = 300, 1000
    rng, lanes = np.random.default_rng(0), np.arange(num_logs)
    means = rng.random((num_logs, 3))
    agent = started("exact", PROBLEM, num_logs)
    columns = []
    for _ in range(num_steps):
        probabilities, actions = agent.action_probabilities(), agent.act()
        rewards = (rng.random(num_logs) < means[lanes, actions]).astype(float)
        agent.observe(actions, rewards)
        columns.append((actions, rewards, probabilities[lanes, actions]))
    actions, rewards, propensities = map(np.transpose, zip(*columns, strict=True))
    for policy, estimator, coverage in [
        ([1 / 3, 1 / 3, 1 / 3], "ips", 0.69),
        ([1 / 3, 1 / 3, 1 / 3], "snips", 0.77),
        ([1, 0, 0], "ips", 0.89),
        ([1, 0, 0], "snips", 0.86),
    ]:
        columns = zip(actions, rewards, [(0, 1, 2)] * num_logs, propensities, strict=True)
        found = [evaluate(policy, Log(*each), estimator) for each in columns]
        pairs = zip(found, means @ policy, strict=True)
        covered = [each.low <= value <= each.high for each, value in pairs if each.low < each.high]
        allowed = 4 * np.sqrt(coverage * (1 - coverage) * (1 / len(covered) + 1 / 500))
        assert abs(np.mean(covered) - coverage) < allowed


@pytest.mark.filterwarnings("ignore:row .* of all weight")
def test_few_rows_or_rewards_that_are_all_equal_give_no_interval():
    actions = np.repeat([0, 1, 2], [13, 9, 11])
    log = Log(actions, actions % 2 * (np.arange(33) % 2.0), (0, 1, 2), np.full(33, 1 / 3))
    for estimator, policy in product(WEIGHTED, np.eye(3)[1:]):  # nine rows; eleven without pay
        assert np.isnan(evaluate(policy, log, estimator).low), (estimator, policy)
    assert np.isnan(replay(lambda: Always(2), log).high)
    rare = np.repeat([1, 0], [3, 30])
    log = Log(rare, np.arange(33) % 2.0, (0, 1), np.array([0.99, 0.01])[rare])
    assert np.isnan(evaluate([0.5, 0.5], log).low)  # worth four rows


@pytest.mark.parametrize("estimator", WEIGHTED)
def test_arms_that_the_log_has_not_are_named_or_refused(estimator):
    log = Log(np.arange(100) % 2, np.arange(100) % 3.0, ("a", "b", "c"), np.full(100, 0.5))
    with pytest.warns(UserWarning, match=r"policy plays arms without rows, \('c',\)"):
        evaluate([0.25, 0.25, 0.5], log, estimator)
    with pytest.raises(ValueError, match="policy must play some action of the log"):
        evaluate([0, 0, 1], log, estimator)
    by = np.arange(100)  # groups that each show one arm
    with pytest.warns(UserWarning, match="weights average 0.5, not 1"):
        evaluate([0.5, 0.5, 0], fit_propensities(log, by), estimator)


def test_arms_that_the_log_has_not_are_named_where_limits_allow_for_them():
    chances = np.tile([0.5, 0.5, 0.0], (40, 1))
    rewards = np.linspace(0.0, 3.0, 40)
    log = Log(np.arange(40) % 2, rewards, ("a", "b", "c"), np.full(40, 0.5), probabilities=chances)
    with pytest.warns(UserWarning, match="without rows.*nothing is known of what they pay"):
        value = evaluate([0.0, 0.5, 0.5], log, "betting", reward_range=(0, 3))
    assert value.low < 0.8 < 2.2 < value.high  # what c pays alone is 0 to 1.5 of the value
    with pytest.warns(UserWarning, match="fewer than 10 rows"):  # and nothing of numpy's
        assert np.isnan(evaluate([0.0, 0.5, 0.5], log).value)


def test_probabilities_with_labels_of_arms_are_found_by_label():
    log, labels = make_log(), pd.Series(TARGET[::-1], index=[2, 1, 0])
    for policy in (labels, pd.DataFrame([labels] * len(log))):
        assert evaluate(policy, log) == evaluate(TARGET, log)


class Always:
    """Plays one arm, and counts what it observes."""

    def __init__(self, arm):
        self.arm, self.seen = arm, []

    def act(self, **options):
        self.told = options
        return self.arm

    def observe(self, action, reward):
        self.seen.append((action, reward))


def make_uniform():
    """Return the log as if arms had been drawn evenly."""
    log = make_log()
    return Log(log.actions, log.rewards, log.arms, np.full(len(log), 1 / 3))


def test_replay_shows_an_agent_the_rows_of_its_own_arms_alone():
    log, agent, uniform = make_log(), Always(2), make_uniform()
    found = replay(lambda: agent, uniform)
    assert found.num_rows == len(agent.seen) == log.counts[2]
    assert found.value == pytest.approx(log.sums[2] / log.counts[2])
    timed = started("moss", PROBLEM, horizon=2000)
    assert replay(lambda: timed, uniform).num_rows == timed.lane_decisions.sum()
    fewer = ExactThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2))
    with pytest.raises(TypeError, match="make_agent must return an agent, got None"):
        replay(lambda: fewer.reset(seed=0), uniform)
    for num_lanes, each, text in ((2, timed, "of one run, got 2 lanes"), (1, fewer, "of 3 arms")):
        each.reset(num_lanes, seed=0)
        with pytest.raises(ValueError, match=f"make_agent must return an agent {text}"):
            replay(lambda each=each: each, uniform)
    with pytest.raises(ValueError, match="log.propensities must be 1 / 3 in each row"):
        replay(lambda: agent, log)


def test_replay_is_worth_values_and_costs_of_all_rows_or_each():
    log, agent, uniform = make_log(), Always(2), make_uniform()
    found = replay(lambda: agent, uniform, values=[1, 2, 3], costs=[0, 0, 0.5], floor=0.1)
    assert found.value == pytest.approx(3 * log.sums[2] / log.counts[2] - 0.5)
    told = {name: np.asarray(part).tolist() for name, part in agent.told.items()}
    assert told == {"values": [1.0, 2.0, 3.0], "costs": [0.0, 0.0, 0.5], "floor": 0.1}
    costs = np.tile(np.arange(len(log)) % 2, (3, 1)).T
    of_rows = costs[log.actions == 2, 2].mean()
    found = replay(lambda: agent, uniform, costs=costs)
    assert found.value == pytest.approx(log.sums[2] / log.counts[2] - of_rows)
    assert agent.told["costs"].tolist() == costs[-1].tolist()
    rule = started("moss", PROBLEM, horizon=2000)
    with pytest.raises(TypeError, match="agent must take values in act, got MOSS"):
        replay(lambda: rule, uniform, values=[1, 2, 3])


class OneVisitor:
    """It decides for one visitor at a time, as models of Stable-Baselines3 do."""

    def action_probabilities(self, features):
        assert features.shape == (3, 2)
        return np.full(3, 1 / 3)

    def decide(self, features):
        raise NotImplementedError


def test_an_agent_of_one_visitor_is_asked_row_by_row():
    log = Log([0, 1, 2] * 4, [1.0, 0.0, 1.0] * 4, (*"abc",), np.full(12, 1 / 3))
    found = evaluate(OneVisitor(), log, "ips", observation=np.ones((12, 3, 2)))
    assert found.value == pytest.approx(2 / 3)


def test_agents_with_features_are_shown_those_of_each_row():
    rng = np.random.default_rng(0)
    visitors, actions = rng.normal(size=(300, 1)), rng.integers(2, size=300)
    is_best = (visitors[:, 0] > 0) == (actions == 1)  # each arm pays the visitors of one sign
    log = Log(actions, is_best.astype(float), (0, 1), np.full(300, 0.5), visitors)
    shown = disjoint(visitors, 2)
    agent = started("lin_ucb", ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 4))
    found = replay(lambda: agent, log, observation=shown)
    assert found.num_rows == agent.lane_counts.sum() and found.value > 0.9
    with pytest.warns(UserWarning, match=f"policy has learned from {found.num_rows} rewards"):
        assert evaluate(agent, log, observation=shown).value > 0.9
    with pytest.warns(UserWarning, match=f"agent has learned from {found.num_rows} rewards"):
        with pytest.raises(ValueError, match=r"must have shape \(300, 2, d\), got \(2, 4\)"):
            replay(lambda: agent, log, observation=shown[0])
