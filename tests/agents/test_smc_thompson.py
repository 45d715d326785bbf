"""Particles: resampling keeps expectations, the paper's SMC collapses, resample-move does not."""

import numpy as np
import pytest

from agents import ExactThompson, SMCThompson
from agents.oracle import action_probabilities
from agents.posteriors.moves import step_directions
from agents.posteriors.resampling import (
    RESAMPLING,
    effective_sample_size,
    normalise,
    particles_at,
    resample,
)
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.priors.mixtures import spike_and_slab
from bandit_gym.problem import BanditProblem

CORRELATED = TruncatedMultivariateNormal(0.5, [[1.0, 0.8, 0.3], [0.8, 1.0, 0.4], [0.3, 0.4, 1.0]])
MODERN = {"num_particles": 1000, "resampling": "systematic", "move": "random-walk"}


@pytest.fixture(params=RESAMPLING)
def scheme(request):
    return request.param


def test_resampling_keeps_the_expected_number_of_copies(scheme, rng):
    weights = np.tile(np.array([0.5, 0.3, 0.15, 0.05]), (20_000, 1))
    chosen = resample(rng, weights, scheme)
    copies = (chosen[:, :, None] == np.arange(4)).sum(axis=1)
    error = np.abs(copies.mean(axis=0) - 4 * weights[0])
    assert (error <= 4 * np.sqrt(4 * weights[0] * (1 - weights[0]) / len(weights))).all()


def test_resampling_never_takes_a_particle_of_weight_zero(scheme, rng):
    weights = np.tile(np.array([0.0, 0.2, 0.0, 0.0, 0.8, 0.0]), (2000, 1))
    assert set(np.unique(resample(rng, weights, scheme))) == {1, 4}


def test_systematic_resampling_keeps_floor_or_ceiling_of_the_expected_copies(rng):
    weights = rng.dirichlet(np.ones(7), size=500)
    chosen = resample(rng, weights, "systematic")
    copies = (chosen[:, :, None] == np.arange(7)).sum(axis=1)
    assert (np.abs(copies - 7 * weights) < 1 + 1e-9).all()


def test_particles_at_survives_a_place_next_to_one():
    weights = np.array([[0.1] * 10, [1.0] + [0.0] * 9])
    places = np.full((2, 1), 1 - 2.0**-53)
    assert particles_at(weights, places).tolist() == [[9], [0]]


@pytest.mark.parametrize(("is_along_axes", "expected"), [(True, [0.1, 1.0]), (False, [0.14, 0.14])])
def test_directions_are_standard_deviations_of_the_population(is_along_axes, expected, rng):
    """Along the axes (1, -1) and (1, 1); given the other arm the variance is 1 / precision."""
    scores = rng.normal(size=(1, 200_000, 2)) * [1.0, 0.1]
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    steps = step_directions(scores @ turn, is_along_axes=is_along_axes)[0]
    # the standard error of a standard deviation is std / sqrt(2 n); of the conditional one, alike
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), expected, rtol=0.01)


def test_effective_sample_size_counts_equal_weights():
    assert effective_sample_size(np.array([0.25, 0.25, 0.25, 0.25, 0.0])) == pytest.approx(4)


def test_normalise_treats_all_zero_weights_as_equal_and_says_so():
    weights, log_total = normalise(np.array([[-np.inf, -np.inf], [-np.inf, 3.0]]))
    assert weights.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert log_total.tolist() == [-np.inf, 3.0]


def lane_shares(agent, num_acts=10):
    """Return the (N, K) shares of each arm in a lane's decisions, given the data so far."""
    actions = np.stack([agent.act() for _ in range(num_acts)], axis=1)
    return (actions[:, :, None] == np.arange(agent.problem.num_arms)).mean(axis=1)


def assert_agrees_with_the_oracle(agent):
    """Lanes are independent, so four standard errors over lanes; 1 / P for the particles' bias."""
    expected = action_probabilities(agent.problem, agent.counts[0], agent.sums[0])
    shares = lane_shares(agent)
    tolerance = 4 * shares.std(axis=0) / np.sqrt(len(shares)) + 1 / agent.num_particles
    assert (np.abs(shares.mean(axis=0) - expected) <= tolerance).all()


CASES = [
    (BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 3), [400, 60, 40], [240.0, 33, 22]),
    (BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 3), [300, 50, 20], [330.0, 50, 19]),
    (BanditProblem(Gaussian(), Normal(0.0, 1.0), 3), [500, 90, 30], [260.0, 40, 12]),
    (
        BanditProblem(Poisson(), TruncatedNormal(1.0, 0.5, 0.0, 3.0), 3),
        [300, 50, 20],
        [330.0, 51, 19],
    ),
    (BanditProblem(Bernoulli(), CORRELATED, 3), [400, 60, 40], [240.0, 33, 22]),
]


@pytest.mark.parametrize(
    ("problem", "counts", "sums"),
    CASES,
    ids=["bernoulli", "exponential", "gaussian", "poisson", "dependent"],
)
def test_smc_with_moves_agrees_with_the_oracle(problem, counts, sums):
    agent = SMCThompson(problem, **MODERN)
    agent.reset(150, seed=0)
    agent.warm_start(counts, sums)
    assert_agrees_with_the_oracle(agent)


@pytest.mark.parametrize("problem_index", [0, 4], ids=["independent", "dependent"])
def test_smc_action_probabilities_are_those_of_its_next_action(problem_index):
    problem, counts, sums = CASES[problem_index]
    agent = SMCThompson(problem, **MODERN | {"num_particles": 50})
    agent.reset(3, seed=0)
    agent.warm_start(counts, sums)
    probabilities, num_acts = agent.action_probabilities(), 3000
    shares = lane_shares(agent, num_acts)
    tolerance = 4 * np.sqrt(probabilities * (1 - probabilities) / num_acts)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (np.abs(shares - probabilities) <= tolerance + 1e-12).all()


def test_smc_that_never_resamples_collapses_and_shows_it():
    problem, counts, sums = CASES[0]
    agent = SMCThompson(problem, num_particles=100)
    agent.reset(50, seed=0)
    agent.warm_start(np.multiply(counts, 20), np.multiply(sums, 20))
    agent.act()
    poor = agent.diagnostics()["effective_sample_size"].mean()
    modern = SMCThompson(problem, **MODERN | {"num_particles": 100})
    modern.reset(50, seed=0)
    modern.warm_start(np.multiply(counts, 20), np.multiply(sums, 20))
    modern.act()
    assert poor < 5 < 40 < modern.diagnostics()["effective_sample_size"].mean()


def test_smc_observed_step_by_step_agrees_with_the_oracle():
    problem, rng = (
        BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 3),
        np.random.default_rng(3),
    )
    agent = SMCThompson(problem, **MODERN)
    agent.reset(100, seed=0)
    for arm, mean, pulls in [(0, 0.6, 150), (1, 0.5, 40), (2, 0.5, 20)]:
        for reward in (rng.random(pulls) < mean).astype(float):
            agent.observe(np.full(100, arm), np.full(100, reward))
    assert_agrees_with_the_oracle(agent)


def test_smc_schedule_says_how_many_particles_take_part():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    agent = SMCThompson(problem, num_particles=[5, 9, 3])
    agent.reset(2, seed=0)
    seen = []
    for _ in range(4):
        seen.append(int(agent.act()[0] >= 0) and int(agent.diagnostics()["num_samples"][0]))
        agent.observe([0, 1], [1.0, 0.0])
    assert seen == [5, 9, 3, 3]


def test_smc_reports_data_that_no_particle_explains():
    class Certain:
        """Every arm pays for certain."""

        support = (0.0, 1.0)

        def sample(self, rng, shape):
            return np.ones(shape)

        def log_density(self, means):
            return np.zeros(means.shape[:-1])

    with pytest.warns(UserWarning, match="must describe the same law"):  # a point has no density
        problem = BanditProblem(Bernoulli(), Certain(), 3)
    agent = SMCThompson(problem, num_particles=10)
    agent.reset(2, seed=0)
    agent.observe([0, 1], [0.0, 1.0])
    agent.act()
    assert agent.diagnostics()["is_degenerate"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_particles": 0}, "num_particles must be .* got 0"),
        ({"num_particles": []}, "num_particles must be"),
        ({"num_particles": [3, 4], "resampling": "systematic"}, "num_particles must be one number"),
        ({"resampling": "systemtic"}, "'systematic'"),
        ({"ess_threshold": 0.0}, "ess_threshold must be .* got 0.0"),
        ({"move": "random walk"}, "'random-walk'"),
        ({"num_moves": 0}, "num_moves must be .* got 0"),
    ],
)
def test_smc_refuses_a_bad_option(options, message):
    with pytest.raises(ValueError, match=message):
        SMCThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3), **options)


def test_normalise_takes_weights_next_to_zero_for_zero():
    weights, log_total = normalise(np.array([[0.0, -1e6, -np.inf, 0.0], [-np.inf] * 4]))
    np.testing.assert_array_equal(weights, [[0.5, 0.0, 0.0, 0.5], [0.25] * 4])
    np.testing.assert_array_equal(log_total, [np.log(2), -np.inf])


def test_smc_refuses_more_particles_than_memory_holds_before_it_asks():
    with pytest.raises(ValueError, match=r"num_particles must be at most 10000000, got 10{12}\."):
        SMCThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3), num_particles=10**12)


def test_text_is_no_sequence_of_particles():
    with pytest.raises(TypeError, match="num_particles must be a positive integer, got b'3'"):
        SMCThompson(BanditProblem(Bernoulli(), Beta(1, 1), 2), num_particles=b"3")


def test_log_weights_fade_by_the_discount():
    """Never resampled, a particle's weight is L_t = discount L_{t-1} + l(reward), to rounding."""
    problem, rng = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2), np.random.default_rng(0)
    agent = SMCThompson(problem, num_particles=50, discount=0.8)
    agent.reset(seed=0)
    expected = np.zeros(50)
    for _ in range(20):
        arm, reward = int(rng.integers(2)), float(rng.integers(2))
        agent.observe(arm, reward)
        agent.act()
        means = agent.inner._particles[0, 0, :, arm]
        expected = 0.8 * expected + problem.likelihood.log_likelihood(means, 1, reward)
    np.testing.assert_allclose(agent.inner._weighed.logs[0, 0], expected, atol=1e-9)


@pytest.mark.parametrize("move", ["none", "random-walk"])
def test_resampled_particles_follow_data_that_fade(move):
    """The exact posterior's mean, within four errors of 1,000 particles at half of that size."""
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2)
    settings = {"num_particles": 2000, "resampling": "systematic", "move": move}
    agents = SMCThompson(problem, discount=0.8, **settings), ExactThompson(problem, discount=0.8)
    for agent in agents:
        agent.reset(seed=0)
        for t in range(30):
            agent.observe(t % 2, float(t % 3 == 0))
            agent.act()
    found, truth = (agent.posterior() for agent in agents)
    assert (abs(found.mean() - truth.mean()) < 4 * truth.std() / 1000**0.5).all()


def test_lanes_whose_particles_no_memory_can_hold_are_refused():
    agent = SMCThompson(
        BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms=10), num_particles=10**7
    )
    assert agent.most_lanes == 5
    with pytest.raises(ValueError, match="num_envs must be at most 5, got 50"):
        agent.reset(num_envs=50, seed=0)


def test_data_that_have_faded_to_nothing_flag_nothing():
    """After 1,080 rewards of the other arm, an arm's only pull counts 0.5 ** 1080, which is 0."""
    agent = SMCThompson(
        BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2), num_particles=200, discount=0.5
    )
    agent.reset(seed=0)
    agent.observe(0, 1.0)
    for t in range(1080):
        agent.observe(1, float(t % 2))
        agent.act()
    assert agent.counts[0, 0] == 0.0
    assert not agent.diagnostics()["is_unreliable"].any()


def test_flags_of_very_many_arms_stay_and_cost_no_table_of_pairs():
    agent = SMCThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms=1001), num_particles=20)
    agent.reset(num_envs=2, seed=0)
    for _ in range(30):
        agent.observe(agent.act(), np.ones(2))
    assert agent.diagnostics()["is_unreliable"].all()
    assert "_doubts" not in vars(agent)


def test_lanes_whose_particles_met_too_little_of_a_slab_beside_a_spike_are_flagged():
    """Some three of 500 draws of the slab lie near the data: the slab's weight is off by half."""
    problem = BanditProblem(Bernoulli(), spike_and_slab(0.5, 1e-4, Beta(1.0, 1.0), 0.5), 3)
    agent = SMCThompson(problem)
    agent.reset(300, seed=0)
    agent.warm_start([32_152, 32_152, 40], [16_346, 16_076, 20])  # three errors from the spike
    agent.act()
    assert agent.diagnostics()["is_unreliable"].mean() > 0.97
