"""Priors of the kind users write: their densities, their draws, and what agents make of them."""

import numpy as np
import pytest
from scipy import integrate

from agents import RacingThompson, SMCThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.priors.mixtures import HierarchicalBeta, LogitNormal, Mixture, spike_and_slab
from bandit_gym.problem import BanditProblem

INDEPENDENT = {
    "mixture": Mixture([Beta(2.0, 8.0), Beta(8.0, 2.0)], [4.0, 1.0]),
    "spike and slab": spike_and_slab(0.3, 0.02, Beta(1.0, 1.0), 0.8),
    "logit-normal": LogitNormal(-0.5, 0.8),
}
SHARED_LEVEL = HierarchicalBeta([2.0, 10.0, 18.0], [18.0, 10.0, 2.0])
COUNTS, SUMS = np.array([8, 5, 3, 0]), np.array([4.0, 2.0, 2.0, 0.0])


@pytest.fixture(params=INDEPENDENT)
def independent_prior(request):
    return INDEPENDENT[request.param]


def test_density_integrates_to_one(independent_prior):
    total, _ = integrate.quad(
        lambda x: np.exp(independent_prior.log_density(np.array([x]))),
        0,
        1,
        points=[0.3],
        limit=200,
    )
    assert total == pytest.approx(1, abs=1e-6)


def test_draws_have_the_density(independent_prior, rng):
    draws = np.sort(independent_prior.sample(rng, (20_000, 1))[:, 0])
    edges = np.quantile(draws, [0.1, 0.3, 0.5, 0.7, 0.9])
    mass = [
        integrate.quad(
            lambda x: np.exp(independent_prior.log_density(np.array([x]))),
            0,
            edge,
            points=[0.3],
            limit=200,
        )[0]
        for edge in edges
    ]
    share = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    assert (np.abs(mass - share) < 4 * np.sqrt(share * (1 - share) / len(draws)) + 1e-6).all()


def test_hierarchical_density_integrates_to_one_over_two_arms():
    total, _ = integrate.dblquad(
        lambda x, y: np.exp(SHARED_LEVEL.log_density(np.array([x, y]))), 0, 1, 0, 1, epsabs=1e-6
    )
    assert total == pytest.approx(1, abs=1e-4)


def test_hierarchical_arms_are_correlated(rng):
    draws = SHARED_LEVEL.sample(rng, (5000, 2))
    assert np.corrcoef(draws.T)[0, 1] > 0.5


@pytest.mark.parametrize("proposal", ["reference", "matched"])
def test_racing_follows_the_oracle_under_a_user_prior(independent_prior, proposal):
    problem = BanditProblem(Bernoulli(), independent_prior, 4)
    agent = RacingThompson(problem, proposal=proposal, stopping=300)
    agent.reset(3000, seed=0)
    agent.warm_start(COUNTS, SUMS)
    found = np.bincount(agent.act(), minlength=4) / 3000
    expected = action_probabilities(problem, COUNTS, SUMS)
    # a race of m samples is off by about 1 / (effective sample size)
    size = agent.diagnostics()["effective_sample_size"].mean()
    tolerance = 4 * np.sqrt(expected * (1 - expected) / 3000) + 1 / size
    assert (np.abs(found - expected) <= tolerance).all()


def test_racing_and_smc_agree_under_a_hierarchical_prior():
    problem = BanditProblem(Bernoulli(), SHARED_LEVEL, 4)
    racing = RacingThompson(problem, proposal="reference", stopping=500)
    racing.reset(3000, seed=0)
    racing.warm_start(COUNTS, SUMS)
    raced = np.bincount(racing.act(), minlength=4) / 3000
    smc = SMCThompson(problem, num_particles=1000, resampling="systematic", move="random-walk")
    smc.reset(60, seed=0)
    smc.warm_start(COUNTS, SUMS)
    actions = np.stack([smc.act() for _ in range(10)], axis=1)
    shares = (actions[:, :, None] == np.arange(4)).mean(axis=1)
    spread = np.sqrt(raced * (1 - raced) / 3000 + shares.var(axis=0) / 60)
    bias = 1 / racing.diagnostics()["effective_sample_size"].mean() + 1 / 1000
    assert (np.abs(raced - shares.mean(axis=0)) <= 4 * spread + bias).all()


def test_mixture_refuses_weights_of_another_length():
    with pytest.raises(ValueError, match="weights must have one entry per component, 2"):
        Mixture([Beta(1.0, 1.0), Beta(2.0, 2.0)], [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Mixture(None, [1.0]),
            "components must be a list with at least one entry, got None",
        ),
        (lambda: Mixture([5], [1.0]), "components must be a list of laws that are independent"),
        (lambda: spike_and_slab(0.5, 0.1, "x", 0.5), "components must be a list of laws.*got 'x'"),
        (
            lambda: spike_and_slab(0.5, 0.1, Beta(1, 1), 1.5),
            "share must be a finite number above 0",
        ),
        (lambda: HierarchicalBeta([1], [1, 2]), "betas must have as many values as alphas"),
        (lambda: HierarchicalBeta(1, [1]), "alphas must be a list with at least one entry, got 1"),
    ],
)
def test_what_is_no_law_is_refused_by_name(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize(("name", "value"), [("spike", [0.1]), ("spike", -1.0), ("width", 0.0)])
def test_spike_and_width_are_single_numbers_in_range(name, value):
    good = {"spike": 0.5, "width": 0.1, "slab": Beta(1, 1), "share": 0.5}
    with pytest.raises((TypeError, ValueError), match=f"{name} must be a finite number"):
        spike_and_slab(**(good | {name: value}))
