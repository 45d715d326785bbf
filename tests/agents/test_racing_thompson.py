"""Racing Thompson equals importance resampling, exact TS in the limit, and its own definition."""

import math
import pickle
import re

import numpy as np
import pytest

from agents import ExactThompson, RacingThompson
from agents.oracle import action_probabilities
from agents.racing.races import Races
from agents.racing.stopping import paper_rule, self_normalised_rule, threshold_function
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import spike_and_slab
from bandit_gym.problem import BanditProblem

DATA = {
    "bernoulli": ([6, 3, 2, 0], [4.0, 1.0, 1.0, 0.0]),
    "exponential": ([6, 3, 2, 0], [7.5, 2.0, 3.1, 0.0]),
    "gaussian": ([6, 3, 2, 0], [2.5, -1.0, 0.7, 0.0]),
    "poisson": ([6, 3, 2, 0], [7.0, 2.0, 3.0, 0.0]),
}


def frequencies(agent, problem, num_lanes, seed=0):
    """Return (K,) shares of the arms that an agent plays given DATA, over many lanes."""
    agent.reset(num_lanes, seed=seed)
    agent.warm_start(*DATA[problem.likelihood.name])
    return np.bincount(agent.act(), minlength=problem.num_arms) / num_lanes


def assert_same_law(first, second, num_lanes):
    """Two shares from independent samples of num_lanes differ by less than four standard errors."""
    share = (first + second) / 2
    assert (np.abs(first - second) <= 4 * np.sqrt(2 * share * (1 - share) / num_lanes)).all()


def test_racing_agrees_with_exact_thompson_for_every_likelihood(conjugate_problem):
    num_lanes = 20_000
    racing = RacingThompson(conjugate_problem, proposal="reference", stopping=500)
    exact = ExactThompson(conjugate_problem)
    assert_same_law(
        frequencies(racing, conjugate_problem, num_lanes),
        frequencies(exact, conjugate_problem, num_lanes, seed=1),
        num_lanes,
    )


@pytest.mark.parametrize(
    "problem",
    [
        BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4),
        BanditProblem(Exponential(), InverseGamma(1.0, 1.0), 4),
    ],
    ids=["bernoulli", "exponential"],
)
@pytest.mark.parametrize("num_samples", [1, 3])
def test_racing_equals_conjugate_thompson_in_law_when_the_prior_is_the_reference(
    problem, num_samples
):
    num_lanes = 40_000
    racing = RacingThompson(problem, proposal="reference", stopping=num_samples)
    exact = ExactThompson(problem)
    assert_same_law(
        frequencies(racing, problem, num_lanes), frequencies(exact, problem, num_lanes), num_lanes
    )


def test_racing_weighs_every_draw_alike_when_the_prior_is_the_reference():
    problem = BanditProblem(Exponential(), InverseGamma(1.0, 1.0), 4)
    agent = RacingThompson(problem, proposal="reference", stopping=100)
    frequencies(agent, problem, 10)
    np.testing.assert_allclose(agent.diagnostics()["effective_sample_size"], 100)


def test_racing_with_one_sample_is_thompson_under_the_reference_prior():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    num_lanes = 40_000
    one = frequencies(RacingThompson(problem, proposal="reference", stopping=1), problem, num_lanes)
    reference = frequencies(ExactThompson(problem, prior="reference"), problem, num_lanes)
    assert_same_law(one, reference, num_lanes)


@pytest.mark.parametrize("num_samples", [2, 5, 50])
def test_race_of_fixed_length_is_importance_resampling(num_samples):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    num_lanes = 20_000
    racing = RacingThompson(problem, proposal="reference", stopping=num_samples)
    raced = frequencies(racing, problem, num_lanes)
    rng = np.random.default_rng(5)
    counts, sums = (np.array(row) for row in DATA["bernoulli"])
    means = rng.beta(1 + sums, 1 + counts - sums, (num_lanes, num_samples, 4))
    log_weights, winners = problem.prior.log_density(means), means.argmax(axis=2)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    chosen = (weights >= rng.random((num_lanes, 1)) * weights[:, -1:]).argmax(axis=1)
    resampled = np.bincount(winners[np.arange(num_lanes), chosen], minlength=4) / num_lanes
    assert_same_law(raced, resampled, num_lanes)


def literal_race(log_weights, winners, gumbels, delta, sigma, scale):
    """Lines 5 to 16 of Algorithm 2 for one lane, all sums computed anew at each sample."""
    num_arms = len(gumbels)
    for d in range(1, len(log_weights) + 1):
        m = d + 1
        weights = np.exp(log_weights[:d])
        values = np.zeros((d, num_arms))
        values[np.arange(d), winners[:d]] = np.exp(gumbels[winners[:d]]) * weights
        values /= values.max() if scale == "value" else weights.max()
        averages = values.sum(axis=0) / m
        second, first = np.sort(averages)[-2:]
        bar = 2 * threshold_function("printed", np.array([m]), delta)[0] - sigma
        if first - second > bar:
            break
    return int(averages.argmax()), d


@pytest.mark.parametrize("scale", ["value", "weight"])
def test_race_follows_algorithm_2_sample_by_sample(scale, rng):
    num_lanes, num_arms, num_draws = 40, 5, 400
    log_weights = rng.normal(scale=2.0, size=(num_lanes, num_draws))
    winners = rng.integers(num_arms, size=(num_lanes, num_draws))
    rule = paper_rule("printed", 0.1, 0.3, num_draws, by_value=scale == "value")
    gumbels = rng.gumbel(size=(num_lanes, num_arms))
    race = Races.start(rule, gumbels, rule.lengths(np.ones(num_lanes)))
    lanes = np.arange(num_lanes)
    for start in range(0, num_draws, 7):  # in chunks, as the agent does
        part = slice(start, start + 7)
        lanes = lanes[~race.feed(lanes, log_weights[lanes, part], winners[lanes, part])]
    for n in range(num_lanes):
        arm, d = literal_race(log_weights[n], winners[n], race.gumbels[n], 0.1, 0.3, scale)
        assert (race.totals[n].argmax(), race.num_samples[n]) == (arm, d)


class ScaledPrior:
    """A prior that is known up to a constant factor only."""

    support = (0.0, 1.0)
    normalised = TruncatedNormal(0.5, 0.1)

    def __init__(self, log_factor):
        self.log_factor = log_factor

    def sample(self, rng, shape):
        return self.normalised.sample(rng, shape)

    def log_density(self, means):
        return self.normalised.log_density(means) + self.log_factor


@pytest.mark.parametrize("scale", ["value", "weight"])
def test_racing_choice_does_not_depend_on_a_constant_factor_of_the_prior(scale):
    chosen = []
    for log_factor in (0.0, 700.0, -3000.0):
        problem = BanditProblem(Bernoulli(), ScaledPrior(log_factor), 4)
        agent = RacingThompson.paper(problem, scale=scale, sigma=0.3)
        agent.reset(50, seed=1)
        agent.warm_start(*DATA["bernoulli"])
        chosen.append(agent.act().tolist())
    assert chosen[0] == chosen[1] == chosen[2]


def test_racing_treats_a_user_prior_as_the_built_in_one():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    user_problem = BanditProblem(Bernoulli(), ScaledPrior(0.0), 4)
    num_lanes = 20_000
    options = {"proposal": "reference", "stopping": 20}
    built_in = frequencies(RacingThompson(problem, **options), problem, num_lanes)
    user = frequencies(RacingThompson(user_problem, **options), problem, num_lanes, seed=9)
    assert_same_law(built_in, user, num_lanes)


def test_printed_threshold_is_clamped_where_its_radicand_is_negative():
    assert threshold_function("printed", np.array([2.0, 10.0]), 0.7).tolist() == [0.0, 0.0]


def test_threshold_agrees_with_hand_computation():
    level = math.log(10)
    radicand = (level + 3 * math.log(level) + 1.5 * math.log(math.log(math.e * 50))) / 200
    assert threshold_function("printed", np.array([100.0]), 0.1)[0] == pytest.approx(
        math.sqrt(radicand)
    )
    shortened = (level + 1.5 * math.log(math.log(math.e * 50))) / 200
    assert threshold_function("shortened", np.array([100.0]), 0.1)[0] == pytest.approx(
        math.sqrt(shortened)
    )


def test_race_that_reaches_its_cap_says_so():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    agent = RacingThompson.paper(problem, sigma=1e-9, delta=1e-3, max_samples=50)
    agent.reset(100, seed=0)
    agent.act()
    diagnostics = agent.diagnostics()
    assert diagnostics["num_samples"].max() == 50
    assert (diagnostics["is_capped"] == (diagnostics["num_samples"] == 50)).all()


def test_race_of_fixed_length_is_not_capped():
    agent = RacingThompson(
        BanditProblem(Bernoulli(), Beta(2.0, 2.0), 4), proposal="reference", stopping=30
    )
    agent.reset(10, seed=0)
    agent.act()
    assert agent.diagnostics()["num_samples"].tolist() == [30] * 10
    assert not agent.diagnostics()["is_capped"].any()


@pytest.mark.parametrize("log_factor", [-np.inf, np.nan, np.inf])
def test_racing_refuses_a_density_that_is_zero_or_not_a_number_at_every_sample(log_factor):
    prior = ScaledPrior(0.0)
    agent = RacingThompson.paper(BanditProblem(Bernoulli(), prior, 4), max_samples=100)
    agent.reset(3, seed=0)
    prior.log_factor = log_factor
    with pytest.raises(ValueError, match="prior.log_density must be"):
        agent.act()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_racing_refuses_a_density_that_is_no_number_at_a_few_samples(value):
    class Spoilt(ScaledPrior):
        is_spoilt = False

        def log_density(self, means):
            values = super().log_density(means)
            return np.where(self.is_spoilt & (means[..., 0] > 0.9), value, values)

    prior = Spoilt(0.0)
    agent = RacingThompson.paper(BanditProblem(Bernoulli(), prior, 4))
    agent.reset(3, seed=0)
    prior.is_spoilt = True
    with pytest.raises(ValueError, match="prior.log_density must be finite or -inf"):
        agent.act()


FAR = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1, low=0.2, high=0.8), 2)
FAR_COUNTS, FAR_SUMS = np.array([1000, 1000]), np.array([150.0, 150.0])


def test_matched_racing_answers_where_the_likelihood_lies_outside_the_support():
    num_lanes = 4000
    agent = RacingThompson(FAR)
    agent.reset(num_lanes, seed=0)
    agent.warm_start([1000, 1000], [150, 154])
    share = np.mean(agent.act() == 1)
    expected = action_probabilities(FAR, FAR_COUNTS, np.array([150.0, 154.0]))[1]
    assert abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / num_lanes)
    assert not agent.diagnostics()["is_unreliable"].any()


@pytest.mark.parametrize("is_users", [False, True], ids=["built-in", "user's"])
def test_races_without_any_weight_end_at_the_first_lane(is_users):
    problem = FAR
    if is_users:
        prior = ScaledPrior(0.0)
        prior.normalised, prior.support = FAR.prior, (0.2, 0.8)
        problem = BanditProblem(Bernoulli(), prior, 2)
    agent = RacingThompson.paper(problem, max_samples=5000)
    agent.reset(40, seed=0)
    agent.warm_start(FAR_COUNTS, FAR_SUMS)
    agent._proposal.follow(agent.rng, agent.counts, agent.sums)
    races = Races.start(agent._rule, agent.rng.gumbel(size=(40, 2)), agent._vetting.lengths)
    with pytest.raises(
        ValueError, match="at all 5000 samples .* lane 0, .* use proposal='matched'"
    ):
        races.run(agent.rng, agent._proposal, np.arange(40))
    assert races.num_samples.sum() < 10_000  # of 200,000


@pytest.mark.parametrize("stopping", ["paper", "self-normalised", 20])
def test_a_race_that_rests_on_one_sample_is_flagged(stopping):
    problem = BanditProblem(Bernoulli(), Beta(1e6, 1e6), 2)
    agent = RacingThompson(problem, proposal="reference", stopping=stopping)
    agent.reset(100, seed=0)
    agent.warm_start([1000, 0], [500, 0])
    agent.act()
    assert agent.diagnostics()["is_unreliable"].mean() > 0.95


def test_a_race_that_never_meets_a_camp_of_the_posterior_is_flagged():
    spiked = spike_and_slab(0.5, 1e-4, Beta(2.0, 2.0), 0.5)
    agent = RacingThompson.paper(BanditProblem(Bernoulli(), spiked, 3))
    agent.reset(100, seed=0)
    agent.warm_start([100, 200, 300], [50, 100, 160])
    agent.act()
    diagnostics = agent.diagnostics()
    assert diagnostics["effective_sample_size"].mean() > 10  # which looks well
    assert diagnostics["is_unreliable"].mean() > 0.9


@pytest.mark.parametrize("problem_name", ["bernoulli", "gaussian"])
def test_races_are_not_flagged_where_proposal_and_posterior_are_alike(problem_name):
    problem = {
        "bernoulli": BanditProblem(Bernoulli(), Beta(2.0, 2.0), 4),
        "gaussian": BanditProblem(Gaussian(), Normal(0.0, 1.0), 4),
    }[problem_name]
    for stopping in ("paper", "self-normalised", 100):
        agent = RacingThompson(problem, proposal="reference", stopping=stopping)
        frequencies(agent, problem, 500)
        assert agent.diagnostics()["is_unreliable"].mean() < 0.02


@pytest.mark.parametrize("problem_index", [2, 3], ids=["gaussian", "poisson"])
def test_racing_can_pull_every_arm_once_first(problem_index):
    problem = [
        None,
        None,
        BanditProblem(Gaussian(), Normal(0.0, 1.0), 4),
        BanditProblem(Poisson(), Gamma(2.0, 2.0), 4),
    ][problem_index]
    agent = RacingThompson.paper(problem, unpulled_arms="pull")
    agent.reset(50, seed=0)
    for _ in range(4):
        agent.observe(agent.act(), np.ones(50))
    assert (agent.counts == 1).all()


def test_arms_without_data_are_pulled_first_in_random_order():
    num_lanes = 4000
    problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 4)
    agent = RacingThompson.paper(problem, unpulled_arms="pull")
    agent.reset(num_lanes, seed=0)
    shares = np.bincount(agent.act(), minlength=4) / num_lanes
    assert (abs(shares - 1 / 4) <= 4 * np.sqrt(1 / 4 * 3 / 4 / num_lanes)).all()


def test_no_sample_raises_the_supremum_scale():
    problem = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
    agent = RacingThompson.paper(problem, scale="supremum", max_samples=200)
    agent.reset(100, seed=0)
    races = agent.race()
    expected = agent._log_supremum + races.gumbels.max(axis=1)
    np.testing.assert_allclose(races.log_scale, expected, atol=1e-9)


def test_racing_supremum_scale_keeps_values_within_one():
    problem = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
    agent = RacingThompson.paper(problem, scale="supremum")
    # Beta(5, 5) over Beta(1, 1) is largest at 1/2: 3 arms, each log(1/4^4) without constants
    assert agent._log_supremum == pytest.approx(3 * 8 * math.log(0.5))


_READER = dict.fromkeys(("sigma", "threshold", "scale"), "paper")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("delta", 0.0, "delta must be .* got 0.0"),
        ("delta", 1.0, "delta must be .* got 1.0"),
        ("sigma", 0.0, "sigma must be .* got 0.0"),
        ("sigma", math.nan, "sigma must be .* got nan"),
        ("threshold", "printd", "'printed'"),
        ("scale", "values", "'value'"),
        ("stopping", 0, "stopping must be .* got 0"),
        ("stopping", "papr", "'paper'"),
        ("effective_samples", 0.0, "effective_samples must be .* got 0.0"),
        ("proposal", "refrence", "'reference'"),
        ("proposal", Gamma(2.0, 1.0), "proposal must be a Beta prior"),
        ("max_samples", 0, "max_samples must be .* got 0"),
        ("unpulled_arms", "drop", "unpulled_arms must be"),
    ],
)
def test_racing_refuses_a_bad_option(option, value, message):
    with pytest.raises(ValueError, match=message):
        RacingThompson(
            BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4),
            **{"stopping": _READER.get(option, "self-normalised"), option: value},
        )


@pytest.mark.parametrize(
    ("stopping", "option", "value"),
    [
        ("self-normalised", "sigma", 0.1),
        ("self-normalised", "threshold", "printed"),
        ("self-normalised", "scale", "weight"),
        ("paper", "effective_samples", 12.0),
        (20, "delta", 0.1),
        (20, "scale", "supremum"),
        (20, "max_samples", 100),
    ],
)
def test_racing_refuses_an_option_that_its_stop_never_reads(stopping, option, value):
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)
    rule = f"{option} must be left out with stopping={stopping!r}, which never reads it"
    with pytest.raises(ValueError, match=re.escape(rule)):
        RacingThompson(problem, stopping=stopping, **{option: value})


def test_racing_by_default_draws_from_the_matched_proposal_and_knows_no_scale():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
    told = {"proposal": "matched", "stopping": "self-normalised", "delta": 0.1}
    chosen = []
    for options in ({}, told | {"effective_samples": 12.0, "max_samples": 100_000}):
        agent = RacingThompson(problem, **options)
        agent.reset(50, seed=1)
        agent.warm_start(*DATA["bernoulli"])
        chosen.append((agent.act().tolist(), agent.diagnostics()["num_samples"].tolist()))
    assert chosen[0] == chosen[1]
    assert agent.sigma is agent.threshold is agent.scale is None


def test_the_papers_setting_is_its_proposal_stop_and_readings():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
    readings = {"delta": 0.3, "sigma": 0.2, "threshold": "shortened", "scale": "weight"}
    told = {"proposal": "reference", "stopping": "paper", "max_samples": 1000}
    agents = [
        RacingThompson.paper(problem, **readings, max_samples=1000),
        RacingThompson(problem, **readings, **told),
    ]
    for agent in agents:
        agent.reset(50, seed=1)
        agent.warm_start(*DATA["bernoulli"])
    assert agents[0].act().tolist() == agents[1].act().tolist()
    found = {name: getattr(agents[0], name) for name in readings | told}
    assert found == readings | told


def test_racing_refuses_the_supremum_of_a_prior_without_natural_parameters():
    with pytest.raises(ValueError, match="natural_parameters"):
        RacingThompson.paper(BanditProblem(Bernoulli(), ScaledPrior(0.0), 4), scale="supremum")


def test_racing_pickled_in_the_middle_continues_bit_for_bit():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
    agent = RacingThompson.paper(problem)
    agent.reset(8, seed=0)
    agent.warm_start(*DATA["bernoulli"])
    agent.act()
    copy = pickle.loads(pickle.dumps(agent))
    assert (agent.act() == copy.act()).all()


def literal_self_normalised_race(log_weights, winners, gumbels, delta, length):
    """The rule of `agents.racing.stopping` for one lane, all sums computed anew at each sample."""
    num_arms, tilts = len(gumbels), np.array([0.05, 0.1, 0.2, 0.4, 0.8])
    for d in range(1, length + 1):
        weights = np.exp(log_weights[:d])
        values = np.zeros((d, num_arms))
        values[np.arange(d), winners[:d]] = np.exp(gumbels[winners[:d]]) * weights
        leader = values.sum(axis=0).argmax()
        others = np.delete(np.arange(num_arms), leader)
        bounds = np.exp(np.maximum(gumbels[leader], gumbels[others])) * weights.max()
        increments = (values[:, [leader]] - values[:, others]) / bounds
        gaps, variances = increments.sum(axis=0), np.square(increments).sum(axis=0)
        evidence = [r * gaps + (np.log1p(-r) + r) * variances for r in tilts]
        if np.max(evidence, axis=0).min() > np.log(len(tilts) * (num_arms - 1) / delta):
            break
    return int(leader), d


def test_self_normalised_race_follows_its_definition_sample_by_sample(rng):
    num_lanes, num_arms, num_draws = 60, 3, 300
    log_weights = rng.normal(scale=1.0, size=(num_lanes, num_draws))
    winners = (rng.random((num_lanes, num_draws)) > 0.8).astype(np.int64)  # arm 0 leads clearly
    rule = self_normalised_rule(0.1, 80.0, num_draws)
    shares = rng.uniform(0.3, 1.0, num_lanes)
    race = Races.start(rule, rng.gumbel(size=(num_lanes, num_arms)), rule.lengths(shares))
    race.feed(np.arange(num_lanes), log_weights, winners)
    lengths = [math.ceil(80 / share) for share in shares]
    for n in range(num_lanes):
        expected = literal_self_normalised_race(
            log_weights[n], winners[n], race.gumbels[n], 0.1, lengths[n]
        )
        assert (race.totals[n].argmax(), race.num_samples[n]) == expected
    assert 5 < (race.num_samples < lengths).sum() < 55  # some are clear, some have enough


def races_of_known_law(rng, probabilities, num_lanes, num_draws):
    """Return winners of constant weight, gumbels, and the arm of largest expectation."""
    size = (num_lanes, num_draws)
    winners = rng.choice(len(probabilities), size=size, p=probabilities)
    gumbels = rng.gumbel(size=(num_lanes, len(probabilities)))
    return winners, gumbels, (gumbels + np.log(probabilities)).argmax(axis=1)


def test_self_normalised_race_that_is_clear_errs_within_its_promise(rng):
    delta, num_lanes, enough_size = 0.1, 4000, 300.0
    probabilities = np.array([0.82] + [0.02] * 9)  # nine arms that win rarely, at a high price
    winners, gumbels, best = races_of_known_law(rng, probabilities, num_lanes, 300)
    rule = self_normalised_rule(delta, enough_size, 300)
    race = Races.start(rule, gumbels, rule.lengths(np.ones(num_lanes)))
    race.feed(np.arange(num_lanes), np.zeros(winners.shape), winners)
    is_clear = race.num_samples < enough_size
    share = (is_clear & (race.totals.argmax(axis=1) != best)).mean()
    assert is_clear.mean() > 0.4
    assert share <= delta + 4 * np.sqrt(delta * (1 - delta) / num_lanes)


def test_self_normalised_race_is_not_clear_on_few_effective_samples(rng):
    num_lanes, num_arms, delta = 2000, 5, 0.3
    log_weights = rng.normal(scale=2.0, size=(num_lanes, 400))
    winners = rng.choice(num_arms, size=log_weights.shape, p=[0.96, 0.01, 0.01, 0.01, 0.01])
    rule = self_normalised_rule(delta, 1e9, 400)
    gumbels = rng.gumbel(size=(num_lanes, num_arms))
    race = Races.start(rule, gumbels, rule.lengths(np.ones(num_lanes)))
    race.feed(np.arange(num_lanes), log_weights, winners)
    is_clear = race.num_samples < 400
    assert is_clear.mean() > 0.1
    least = math.log(5 * (num_arms - 1) / delta)  # five values of r
    assert race.effective_sample_size()[is_clear].min() > least


def test_self_normalised_race_does_not_depend_on_the_scale(rng):
    log_weights, winners = rng.normal(size=(50, 400)), rng.integers(4, size=(50, 400))
    gumbels = rng.gumbel(size=(50, 4))
    ends = []
    for shift in (0.0, 500.0, -500.0):
        rule = self_normalised_rule(0.1, 30.0, 400)
        race = Races.start(rule, gumbels, rule.lengths(np.full(50, 0.2)))
        race.feed(np.arange(50), log_weights + shift, winners)
        ends.append((race.num_samples.tolist(), race.totals.argmax(axis=1).tolist()))
    assert ends[0] == ends[1] == ends[2]


def test_a_length_chosen_before_errs_less_than_stopping_when_there_is_enough(rng):
    """Weights of 39 (one draw in 40) and 1: half of the mass each, a share of about 0.1."""
    num_races, enough, chance, heavy = 4000, 12, 1 / 40, 39.0
    share = (2 * 39 / 40) ** 2 / ((heavy**2 + 39) / 40)
    is_heavy = rng.random((num_races, 400)) < chance
    weights = np.where(is_heavy, heavy, 1.0)
    rule = self_normalised_rule(1e-300, enough, 400)  # never clear
    races = Races.start(rule, np.zeros((num_races, 2)), rule.lengths(np.full(num_races, share)))
    races.feed(np.arange(num_races), np.log(weights), is_heavy.astype(np.int64))
    assert (races.num_samples == math.ceil(enough / share)).all()
    fixed = (races.totals[:, 1] / races.totals.sum(axis=1)).mean()
    sums, squares = weights.cumsum(axis=1), np.square(weights).cumsum(axis=1)
    end = (sums**2 >= enough * squares).argmax(axis=1)
    heavy_sums = (weights * is_heavy).cumsum(axis=1)
    stopped = np.take_along_axis(heavy_sums / sums, end[:, None], axis=1).mean()
    assert abs(fixed - 0.5) < abs(stopped - 0.5) / 2 - 4 * 0.5 / math.sqrt(num_races)


def test_a_race_goes_on_beyond_its_length_until_a_sample_has_weight():
    rule = self_normalised_rule(0.1, 12.0, 50)
    races = Races.start(rule, np.zeros((1, 2)), rule.lengths(np.ones(1)))
    log_weights = np.full((1, 30), -np.inf)
    assert not races.feed(np.arange(1), log_weights, np.zeros((1, 30), dtype=np.int64))[0]
    assert races.feed(np.arange(1), np.zeros((1, 20)), np.zeros((1, 20), dtype=np.int64))[0]
    assert 30 < races.num_samples[0] <= 50


@pytest.mark.parametrize("tilt", [0.05, 0.4, 0.8])
def test_clearance_bounds_increments_that_are_bounded_below_alone(rng, tilt):
    """The supermartingale behind the rule, for increments of mean 0 and infinite variance."""
    num_paths, num_draws, level = 4000, 300, math.log(10.0)
    increments = rng.pareto(1.5, size=(num_paths, num_draws)) / 2 - 1  # the draws have mean 2
    terms = tilt * increments + (math.log1p(-tilt) + tilt) * np.square(increments)
    share = (terms.cumsum(axis=1) > level).any(axis=1).mean()
    assert share <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / num_paths)


@pytest.mark.parametrize(
    "proposal", ["matched", Beta(3.0, 2.0), {"name": "beta", "alpha": 2, "beta": 2}]
)
def test_racing_draws_from_the_right_law_whatever_the_proposal(proposal):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
    num_lanes = 20_000
    raced = frequencies(
        RacingThompson(problem, stopping=300, proposal=proposal), problem, num_lanes
    )
    expected = action_probabilities(problem, *DATA["bernoulli"])
    assert (np.abs(raced - expected) <= 4 * np.sqrt(expected * (1 - expected) / num_lanes)).all()


def test_matched_proposal_needs_hardly_any_correction_for_a_nearly_conjugate_prior():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    sizes = {}
    for proposal in ("reference", "matched"):
        agent = RacingThompson(problem, stopping=100, proposal=proposal)
        frequencies(agent, problem, 500)
        sizes[proposal] = agent.diagnostics()["effective_sample_size"].mean()
    assert sizes["matched"] > 90 > 50 > sizes["reference"]


def test_races_run_alone_and_together_agree():
    """The compiled loop for known densities does what the rounds for a user's density do."""
    ends = []
    for prior in (TruncatedNormal(0.5, 0.1), ScaledPrior(0.0)):
        agent = RacingThompson(
            BanditProblem(Bernoulli(), prior, 4), proposal="reference", stopping=60
        )
        agent.reset(25, seed=4)
        agent.warm_start(*DATA["bernoulli"])
        ends.append((agent.act(), agent.diagnostics()["effective_sample_size"]))
    assert (ends[0][0] == ends[1][0]).all()
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-9)


def test_a_compiled_race_of_known_length_draws_no_more_than_that():
    """Were more drawn for a lane, by a guess of 16 or of 1,000, the next one would see others."""
    ends = []
    for guess in (16.0, 1000.0):
        problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 4)
        agent = RacingThompson(problem)
        agent.reset(50, seed=0)
        agent._proposal.expected_samples = guess
        ends.append(agent.race().totals)
    np.testing.assert_array_equal(*ends)
