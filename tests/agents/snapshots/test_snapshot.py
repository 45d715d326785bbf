"""What every snapshot keeps, kind by kind of posterior."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats
from surface import play

from agents import ExactThompson, RacingThompson, SMCThompson, make_agent
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import (
    Beta,
    InverseGamma,
    Normal,
    SharedMixture,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

CONJUGATE = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 3)
GRID = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 3)
MIXTURE = BanditProblem(Bernoulli(), SharedMixture([Beta(2, 5), Beta(9, 3)], [0.4, 0.6]), 3)
CHAINS = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, 0.05 * np.eye(3) + 0.02), 3)
KINDS = {
    "the conjugate posterior": (ExactThompson, CONJUGATE, {}),
    "tables": (ExactThompson, GRID, {}),
    "the posteriors of the mixture's components": (ExactThompson, MIXTURE, {}),
    "8,192 draws of Markov chains": (ExactThompson, CHAINS, {}),
    "weighted particles": (SMCThompson, GRID, {"num_particles": 300}),
    "weighted draws": (RacingThompson, CHAINS, {"proposal": "matched"}),
}


def make(source, num_envs=None):
    kind, problem, options = KINDS[source]
    agent = kind(problem, **options)
    agent.reset(num_envs, seed=1)
    play(agent, 15)
    return agent


every_kind = pytest.mark.parametrize("source", KINDS)


@pytest.mark.parametrize("name", ["random", "ucb1", "kl_ucb", "ucb_tuned", "moss"])
def test_agents_without_a_prior_refuse_in_one_sentence(name):
    agent = make_agent(name, CONJUGATE)
    agent.reset(seed=0)
    with pytest.raises(TypeError, match=r"posterior must be asked of an agent with a prior, got"):
        agent.posterior()


def test_rewards_of_an_arm_without_a_proper_posterior_are_refused():
    agent = ExactThompson(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), prior="reference")
    agent.reset(seed=0)
    agent.observe(0, 1.0)
    with pytest.raises(ValueError, match="predictive must have proper posteriors, got none of arm"):
        agent.posterior().predictive(3, seed=0)
    assert agent.posterior().mean().tolist() == [1.0, np.inf]


def test_what_cannot_be_asked_is_one_sentence():
    posterior = make("tables").posterior()
    for method, argument, text in [
        ("quantile", "x", "p must be numbers, alone or in an array, got 'x'"),
        ("quantile", [[0.1], [0.2, 0.3]], "p must be numbers"),
        ("quantile", [0.5, np.nan], "p must have no NaN"),
        ("quantile", 1.0, "p must be above 0 and below 1, got 1.0"),
        ("interval", 0.0, "confidence must be a finite number above 0"),
        ("sample", 0, "size must be a positive integer, got 0"),
        ("density", None, "x must be numbers, alone or in an array, got None"),
        ("density", 10**400, "x must be numbers"),
        ("sample", 10**18, "size must be at most 333333333, got 1000000000000000000"),
        ("plot", 5, "ax must be an Axes, got 5"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            getattr(posterior, method)(argument)


@every_kind
def test_a_copy_says_how_the_last_act_went(source):
    agent = make(source, 2)
    agent.act()
    for copied in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        np.testing.assert_equal(copied.diagnostics(), agent.diagnostics())


@every_kind
def test_expected_loss_is_what_stopping_with_an_arm_loses_on_average(source):
    snapshot = make(source, 2).posterior()
    assert snapshot.source == source
    # Answers of formulas are exact, others rest on 250 independent draws at least.
    is_exact = "posterior" in source or source == "tables"
    draws = snapshot.sample(40_000 if is_exact else 4000, seed=3)  # (M, N, K)
    losses = draws.max(axis=-1, keepdims=True) - draws
    tolerance = 4 * losses.std(axis=0) / np.sqrt(40_000 if is_exact else 250)
    assert (np.abs(snapshot.expected_loss() - losses.mean(axis=0)) <= tolerance).all()


@pytest.mark.parametrize("method", ["conjugate", "grid"])
@pytest.mark.parametrize("shape", [1.2, 1.5, 3.0])
def test_expected_loss_reaches_into_heavy_tails(shape, method):
    agent = ExactThompson(BanditProblem(Exponential(), InverseGamma(shape, 1.0), 3), method=method)
    agent.reset(seed=0)
    u, mean = np.linspace(-5, 200, 20_001), stats.invgamma(shape)
    below, above = mean.cdf(np.exp(u)), mean.sf(np.exp(u))
    expected = np.trapezoid(np.exp(u) * below * above * (1 + below), u)  # of F - F^3, in x = e^u
    snapshot = agent.posterior()
    found = snapshot.expected_loss()
    assert found == pytest.approx(expected, rel=1e-3) or snapshot.doubts
    assert (found > 0).all() and (method == "grid" or not snapshot.doubts)


def test_the_loss_to_an_arm_without_a_finite_mean_is_infinite():
    problem = BanditProblem(Exponential(), InverseGamma(3.0, 1.0), 3)
    agent = ExactThompson(problem, prior="reference")
    agent.reset(seed=0)
    agent.warm_start([0, 3, 3], [0, 1.0, 2.0])
    assert np.isinf(agent.posterior().expected_loss()).tolist() == [False, True, True]
    assert agent.posterior().quantile([]).shape == (0, 3)
    with pytest.raises(AttributeError, match="coefficients must be asked of arms with features"):
        agent.posterior().coefficients.mean()
