"""What a race is: importance resampling, the paper's Algorithm 2, and no matter of scale."""

import inspect
import math
import re
import textwrap
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from families import DensityOnly
from surface import assert_played, started

from agents.racing.coverage import PriorSample
from agents.racing.proposals import draw_logistic, order_arms
from agents.racing.races import Races
from agents.racing.stopping import Paper, make_stop
from agents.racing_thompson import RacingThompson, run_algorithm_2
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli, Exponential, Poisson
from bandit_gym.logs import Log
from bandit_gym.priors import (
    Beta,
    Gamma,
    SharedMixture,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

DATA = [6, 3, 2, 0], [4.0, 1.0, 1.0, 0.0]
CUT = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)


def race(problem, num_lanes, data=DATA, name="racing", **options):
    """Return the arms that races choose, and what is said of them."""
    agent = started(name, problem, num_lanes, *data, **options)
    return agent.act(), agent.diagnostics()


def assert_same_shares(first, second):
    """Compare shares of arms in independent samples: four standard errors of the difference."""
    shares = [np.bincount(arms, minlength=4) / len(arms) for arms in (first, second)]
    middle = (shares[0] + shares[1]) / 2
    error = 4 * np.sqrt(2 * middle * (1 - middle) / len(first))
    assert (np.abs(shares[0] - shares[1]) <= error).all()


def samples(rng, num_lanes, num_samples, prior=CUT.prior):
    """Return the winners and log-weights (N, m) of draws from the posterior of Table 1."""
    counts, sums = (np.array(column) for column in DATA)
    means = rng.beta(1 + sums, 1 + counts - sums, (num_lanes, num_samples, 4))
    return means.argmax(axis=2), prior.log_density(means)


@pytest.mark.parametrize("num_samples", [1, 2, 5, 50])
def test_a_race_of_fixed_length_is_importance_resampling(num_samples, rng):
    """One draw in proportion to the weights of m: with m = 1, the reference posterior's own."""
    num_lanes = 20_000
    raced, told = race(CUT, num_lanes, proposal="reference", stopping=num_samples)
    winners, log_weights = samples(rng, num_lanes, num_samples)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    chosen = (weights >= rng.random((num_lanes, 1)) * weights[:, -1:]).argmax(axis=1)
    assert_same_shares(raced, winners[np.arange(num_lanes), chosen])
    assert (told["num_samples"] == num_samples).all() and not told["is_capped"].any()


def test_a_prior_sample_is_drawn_again_in_proportion_to_its_weights():
    """Of three pulls all data count; systematic draws are as many as expected, or one more."""
    sample, (counts, sums) = PriorSample(CUT), ([1, 2, 0, 0], [1.0, 0.0, 0.0, 0.0])
    means, part, _ = sample.resample(np.array([counts]), np.array([sums]))
    drawn = means[0].T
    places = (drawn[:, None] == sample.means).all(axis=2).argmax(axis=1)
    weights = (sample.means**sums * (1 - sample.means) ** np.subtract(counts, sums)).prod(axis=1)
    expected = len(drawn) * weights / weights.sum()
    assert part == 1 and (abs(np.bincount(places, minlength=len(weights)) - expected) < 1).all()


def literal_race(winners, log_weights, gumbels, compute_thresholds, scale):
    """Lines 5 to 16 of Algorithm 2 for one lane, after every number of samples at once."""
    weights, d = np.exp(log_weights - log_weights.max()), np.arange(1, len(log_weights) + 1)
    values = np.zeros((len(weights), len(gumbels)))
    values[d - 1, winners] = np.exp(gumbels[winners]) * weights
    largest = np.maximum.accumulate(values.max(axis=1) if scale == "value" else weights)
    with np.errstate(invalid="ignore"):  # before the first sample that has weight
        averages = values.cumsum(axis=0) / largest[:, None]
    second, first = np.sort(averages / (d + 1)[:, None])[:, -2:].T  # m is 1 before the first sample
    is_over = (first - second > compute_thresholds[d]) | (d == len(d))
    return averages[is_over.argmax()].argmax(), d[is_over.argmax()]


def compute_thresholds(threshold, delta, sigma, most):
    """Return 2 beta(m, delta) - sigma at m = d + 1 for d = 0 ... most, as printed in line 12."""
    m = np.arange(most + 1) + 1.0
    level = math.log(1 / delta)
    third = 3 * math.log(level) if threshold == "printed" else 0.0
    radicand = (level + third + 1.5 * np.log(np.log(math.e * m / 2))) / (2 * m)
    return 2 * np.sqrt(np.maximum(radicand, 0.0)) - sigma


READINGS = [
    ("printed", "value", 0.1, 0.1),
    ("printed", "weight", 0.1, 0.3),
    ("shortened", "value", 0.2, 0.2),
    ("shortened", "weight", 0.7, 0.3),
]


@pytest.mark.parametrize(("threshold", "scale", "delta", "sigma"), READINGS)
def test_compiled_races_end_as_algorithm_2_does_line_by_line(threshold, scale, delta, sigma, rng):
    """The same arm after the same number of samples; a tenth of the samples have no weight."""
    num_races, most, options = 60, 5000, {"delta": delta, "sigma": sigma}
    stop = Paper(threshold=threshold, scale=scale, max_samples=most, **options).thresholds()
    level = compute_thresholds(threshold, delta, sigma, most)
    for _ in range(num_races):
        means = rng.beta(*rng.uniform(1, 6, (2, 5)), (most, 5))
        log_weights = -rng.exponential(3) * abs(means - 0.4).sum(axis=1)
        log_weights[rng.random(most) < 0.1] = -np.inf
        races = Races.start(np.array([most]), most, rng.gumbel(size=(1, 5)))
        winners = means.argmax(axis=1)
        stop.race(races, np.arange(1), log_weights[None], winners[None])
        expected = races.pick_arms()[0], races.num_samples[0]
        assert literal_race(winners, log_weights, races.gumbels[0], level, scale) == expected
        if (threshold, scale) == ("printed", "value"):
            draws, weights = iter(means), iter(log_weights)
            options["max_samples"] = most
            raced = run_algorithm_2(
                lambda d=draws: next(d), lambda _, w=weights: next(w), races.gumbels[0], **options
            )
            assert raced == expected


def test_the_page_has_the_lines_of_algorithm_2_as_the_code_has_them():
    code = inspect.getsource(run_algorithm_2)
    body = textwrap.dedent(code[code.index("    m, log_scale") :])
    assert body in Path("docs/racing-thompson.md").read_text()


@pytest.mark.parametrize("effective_samples", [20.0, 100.0])
def test_a_race_takes_as_many_samples_as_its_effective_size_needs(effective_samples):
    """A draw is worth (E w)^2 / E w^2 effective samples, about a half here, as pilots find."""
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 4)
    _, told = race(problem, 50, proposal="reference", effective_samples=effective_samples)
    _, log_weights = samples(np.random.default_rng(0), 1, 200_000, problem.prior)
    weights = np.exp(log_weights - log_weights.max())
    share = weights.mean() ** 2 / np.square(weights).mean()
    # of 256 pilots: four errors, of weights that deviate by their average or so
    assert told["num_samples"] * share == pytest.approx(effective_samples, rel=4 / 16)


def test_races_grow_longer_once_data_contradict_those_of_the_last_pilots():
    """Arms that move together, says the prior, suddenly differ."""
    covariance = 0.09 * (0.02 * np.eye(3) + 0.98)
    prior = TruncatedMultivariateNormal(1.0, covariance.tolist(), 0.0, 3.0)
    problem = BanditProblem(Exponential(), prior, 3)
    agent = started("racing", problem, 20, [60] * 3, [60.0] * 3)
    agent.act()
    agent.warm_start([50] * 3, [90.0, 20.0, 60.0])
    for _ in range(12):
        agent.observe(agent.act() * 0, np.full(20, 1.4))
    agent.act()
    fresh = started("racing", problem, 1, agent.counts[0], agent.sums[0])
    _, needed = fresh.act(), fresh.diagnostics()["num_samples"]
    assert (agent.diagnostics()["num_samples"] > needed / 2).all()


def test_races_and_decisions_look_at_the_same_pilots():
    """After earlier data the lanes are due, whichever of the two comes first."""
    prior = TruncatedMultivariateNormal(0.5, [[0.1, 0.09], [0.09, 0.1]])
    racing, acting = (
        started("racing", BanditProblem(Bernoulli(), prior, 2), 4, [40, 40], [30.0, 8.0])
        for _ in range(2)
    )
    acting.act()
    num_samples = racing.race().num_samples
    assert num_samples.tolist() == acting.diagnostics()["num_samples"].tolist()
    assert num_samples.min() > 12  # effective samples, which are fewer than those drawn


def test_nothing_depends_on_a_constant_factor_of_the_prior():
    for options in [
        {"name": "racing_paper", "scale": "value", "sigma": 0.3},
        {"name": "racing_paper", "scale": "weight", "sigma": 0.3},
        {"proposal": "reference"},
        {"proposal": "matched"},
        {"proposal": "reference", "stopping": 60},
    ]:
        priors = [DensityOnly(CUT.prior, constant) for constant in (0.0, 700.0, -3000.0)]
        problems = [BanditProblem(Bernoulli(), prior, 4) for prior in priors]
        found = [race(problem, 50, **options) for problem in problems]
        for arms, told in found[1:]:
            assert arms.tolist() == found[0][0].tolist(), options
            assert told["num_samples"].tolist() == found[0][1]["num_samples"].tolist(), options


def test_the_papers_race_is_its_proposal_stop_and_readings():
    readings = {"delta": 0.3, "sigma": 0.2, "threshold": "shortened", "scale": "weight"}
    ways = [("racing_paper", readings), ("racing", {"proposal": "reference", "stopping": readings})]
    found = [race(CUT, 50, name=name, **options) for name, options in ways]
    assert found[0][0].tolist() == found[1][0].tolist()
    assert found[0][1]["num_samples"].tolist() == found[1][1]["num_samples"].tolist()


def test_a_stop_is_the_papers_a_dict_of_its_options_or_a_number():
    stop = Paper(delta=0.3, sigma=0.2)
    assert make_stop({"delta": 0.3, "sigma": 0.2}) == make_stop(stop.to_dict()) == stop
    assert make_stop(20) == 20 and make_stop(None) is None


@pytest.mark.parametrize("problem", [UNIFORM, CUT], ids=["conjugate", "tables"])
@pytest.mark.parametrize("stopping", [None, 7])
def test_draws_of_the_posterior_itself_are_exact_thompson_sampling(problem, stopping):
    num_samples = stopping or 1
    arms, told = race(problem, 20_000, stopping=stopping)
    assert_same_shares(arms, started("exact", problem, 20_000, *DATA).act())
    assert (told["num_samples"] == num_samples).all() and not told["doubts"].any()
    np.testing.assert_allclose(told["effective_sample_size"], num_samples)


def test_diagnostics_say_why_a_race_is_doubted_and_when_it_was_checked():
    _, told = race(CUT, 200, name="racing_paper", max_samples=50)
    assert told["is_capped"].any()
    assert (told["is_capped"] == (told["num_samples"] == 50)).all()
    assert ((told["doubts"] & Doubt.RACE_CAPPED > 0) == told["is_capped"]).all()
    assert ((told["doubts"] != 0) == told["is_unreliable"]).all()
    assert (told["last_checked"] == sum(DATA[0])).all()
    _, told = race(CUT, 200, proposal="reference", stopping=1)  # TS under another prior
    assert (told["doubts"] == Doubt.LOW_COVERAGE).all()


def test_a_question_leaves_what_diagnostics_say_of_the_last_decision():
    for options in ({"proposal": "reference"}, {"stopping": 50}):
        agent = started("racing", CUT, 3, *DATA, **options)
        agent.observe(agent.act(), np.ones(3))
        agent.act()
        before = agent.diagnostics()
        agent.action_probabilities()
        after = agent.diagnostics()
        assert "num_samples" in before and before.keys() == after.keys()
        assert all((before[name] == after[name]).all() for name in before)


def test_arms_without_a_posterior_can_be_pulled_first_in_random_order():
    problem = BanditProblem(Poisson(), Gamma(2.0, 2.0), 4)
    agent = started("racing_paper", problem, 2000, unpulled_arms="pull")
    first = agent.act()
    assert_played(first, [1 / 4] * 4)
    agent.observe(first, np.ones(2000))
    for _ in range(3):
        agent.observe(agent.act(), np.ones(2000))
    assert (agent.lane_counts == 1).all()


def test_arms_without_a_posterior_are_pulled_first_by_every_decision_that_is_taken():
    problem, unpulled = BanditProblem(Poisson(), Gamma(2.0, 2.0), 4), [5, 5, 5, 0]
    options = {"proposal": "reference", "unpulled_arms": "pull"}
    racing = started("racing", problem, None, unpulled, [45, 45, 45, 0], **options)
    named = {"name": "racing"} | options
    plain = started("thompson", problem, None, unpulled, [45, 45, 45, 0], posterior=named)
    two = started("top_two", problem, None, unpulled, [45, 45, 45, 0], posterior=named)
    assert two.decide().probabilities[3] >= 0.5  # its leader half of the time
    free = started("racing", problem, None, unpulled_arms="pull")  # whose proposal is proper
    assert free.act(values=[1.0, 1.0, 1.0, 1.0]) in range(4)
    for agent in (racing, plain):
        assert agent.act() == 3 and agent.decide().probabilities.tolist() == [0, 0, 0, 1]
        assert agent.posterior().best_arm_probabilities()[3] < 0.9  # which is not why
        for call in ({"values": [1.0, 1.0, 1.0, 1.0]}, {"top": 2}):
            with pytest.raises(TypeError, match="whose rule takes none|has no order of all arms"):
                agent.act(**call)


def test_races_on_tables_take_as_many_lanes_as_these():
    agent = RacingThompson(BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 10))
    assert agent.max_lanes < 10**6
    agent.reset()
    assert len(agent.act(size=agent.max_lanes + 1)) > agent.max_lanes  # of one lane's tables


@pytest.mark.parametrize("name", ["greedy", "bayes_ucb"])
def test_diagnostics_of_a_rule_that_does_not_race_are_of_its_decision(name):
    """They were of all that had been observed when somebody asked."""
    prior = TruncatedMultivariateNormal(0.2, [[1e-4, 0.0], [0.0, 1e-4]])
    agent = started(name, BanditProblem(Bernoulli(), prior, 2), 2, posterior="racing")
    agent.act()
    agent.observe_log(Log(np.zeros(1000, dtype=int), np.arange(1000.0) < 950, (0, 1)))
    assert agent.diagnostics()["doubts"].tolist() == [0, 0]


ANSWERS = {
    "decide": lambda agent: agent.decide(),
    "values": lambda agent: agent.act(values=[1.0, 2.0]),
    "top": lambda agent: agent.act(top=2),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [*product(["racing"], ANSWERS), ("bayes_ucb", "decide"), ("bayes_ucb", "values")],
)
def test_proposals_are_checked_also_where_no_race_decides(name, way):
    """A mode of weight 1e-5 beforehand has .775 of the posterior, and no draw reaches it."""
    prior = SharedMixture((TruncatedNormal(0.97, 0.003), Beta(20.0, 20.0)), [1e-5, 1 - 1e-5])
    problem = BanditProblem(Bernoulli(), DensityOnly(prior), 2)
    options = {"posterior": "racing"} if name == "bayes_ucb" else {}
    agent = started(name, problem, None, [3, 30], [3, 29], **options)
    assert Doubt.LOW_COVERAGE in agent.posterior().doubts
    ANSWERS[way](agent)
    assert Doubt.LOW_COVERAGE in agent.diagnostics()["doubts"]
    if name == "racing":
        with pytest.warns(RuntimeWarning, match="rests on a posterior that is doubted"):
            agent.action_probabilities()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("is_everywhere", [True, False], ids=["everywhere", "at few samples"])
def test_a_density_that_is_no_number_is_refused_and_changes_nothing(value, is_everywhere):
    class Spoilt(DensityOnly):
        is_spoilt = False

        def log_density(self, means):
            values = super().log_density(means)
            return np.where(self.is_spoilt & ((means[..., 0] > 0.9) | is_everywhere), value, values)

    prior = Spoilt(CUT.prior)
    agent = started("racing_paper", BanditProblem(Bernoulli(), prior, 4), 3, max_samples=100)
    prior.is_spoilt = True
    if value == -np.inf and not is_everywhere:
        assert agent.act().shape == (3,)  # such means are impossible, no more
    else:
        with pytest.raises(ValueError, match="prior.log_density must be"):
            agent.act()
    prior.is_spoilt = False
    assert agent.act().shape == (3,)


def test_data_that_are_impossible_under_the_prior_are_told_by_lane():
    class SeldomPaying:
        """Arm 1 pays one time in five at most, says the prior."""

        def sample(self, rng, shape):
            return rng.random(shape) * np.where(np.arange(shape[-1]) == 1, 0.2, 1.0)

        def log_density(self, means):
            return np.where(means[..., 1] <= 0.2, 0.0, -np.inf)

    problem = BanditProblem(Bernoulli(), SeldomPaying(), 3)
    agent = started("racing_paper", problem, 2, max_samples=200)
    agent.warm_start([[0, 0, 0], [0, 50, 0]], [[0, 0, 0], [0, 50, 0]])
    told = "at all 200 samples of the race in lane 1, whose counts [0, 50, 0] and sums [0.0, 50.0"
    with pytest.raises(ValueError, match=re.escape(told)):
        agent.act()
    agent.reset_lanes(np.array([False, True]))
    assert agent.act().shape == (2,)


@pytest.mark.parametrize("ends", [(-1.0, 3.0), (0.5, 2.0), (-4.0, -1.0), (40.0, 40.1)])
def test_truncated_logistic_draws_are_weighed_to_uniform_ones(ends):
    """One over a density weighs its draws to length: eight bins, four standard errors."""
    size, rng = 20_000, np.random.default_rng(0)
    found = [draw_logistic(*ends, level, True) for level in rng.random(size)]
    draws, log_densities = np.transpose(found)
    given = [draw_logistic(*ends, draw, False) for draw in draws]
    np.testing.assert_array_equal(given, found)
    assert ((draws >= ends[0] - 1e-12 * abs(ends[0])) & (draws <= ends[1])).all()
    weights = np.exp(-log_densities) / (ends[1] - ends[0])
    bins = np.floor((draws - ends[0]) / (ends[1] - ends[0]) * 8)
    for each in range(8):
        share = weights * (bins == each)
        assert abs(share.mean() - 1 / 8) < 4 * share.std() / size**0.5


def test_each_arm_has_its_turn_where_rounding_leaves_it_no_variance():
    """Twelve arms on a smooth curve: the inverse of the inverse of their covariance is off."""
    x = np.linspace(0, 1, 12)
    smooth = np.exp(-0.5 * np.square((x[:, None] - x) / 0.4)) + 1e-9 * np.eye(12)
    covariance = np.linalg.inv(np.linalg.inv(0.02 * smooth))[None]
    normals = order_arms(np.tile([0.0, 1.0], (12, 1)), np.full((1, 12), 0.5), covariance)
    assert np.sort(normals.order[0]).tolist() == list(range(12))
    assert np.isfinite(normals.factor).all()
