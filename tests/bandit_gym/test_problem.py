"""BanditProblem: what fits together, what does not, and what a user's own prior must do."""

import json
import pickle
import re

import numpy as np
import pytest
from families import ALL_LIKELIHOODS, ALL_PRIORS

from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    IndependentPrior,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem, problem_from_dict


class UniformPrior:
    """All a user needs to write: independent uniform means."""

    def sample(self, rng, shape):
        return rng.random(shape)

    def log_density(self, means):
        return np.where(((means >= 0) & (means <= 1)).all(axis=-1), 0.0, -np.inf)


def _prior_with(sample=UniformPrior.sample, log_density=UniformPrior.log_density):
    return type("OwnPrior", (), {"sample": sample, "log_density": log_density})()


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Bernoulli(), Beta(1, 1)),
        (Bernoulli(), TruncatedNormal(0.5, 0.1)),
        (Exponential(), InverseGamma(3, 2)),
        (Exponential(), Gamma(2, 2)),
        (Exponential(), TruncatedNormal(1.0, 1.0, 0.0, 9.0)),
        (Gaussian(), Normal(0, 1)),
        (Gaussian(), Beta(1, 1)),
        (Gaussian(), TruncatedNormal(0.0, 1.0, -5.0, 5.0)),
        (Poisson(), Gamma(1, 1)),
        (Poisson(), Beta(2, 2)),
    ],
)
def test_problem_accepts_a_prior_on_possible_means(likelihood, prior):
    assert BanditProblem(likelihood, prior, 3).prior is prior


@pytest.mark.parametrize(
    ("likelihood", "prior", "text"),
    [
        (
            Bernoulli(),
            Normal(0.5, 0.1),
            "prior must lie in [0, 1], where the means of bernoulli rewards are, got "
            "Normal(mean=0.5, std=0.1); use 'beta', or 'truncated_normal' with low and high in "
            "that interval.",
        ),
        (Bernoulli(), Gamma(1, 1), "prior must lie in [0, 1]"),
        (Bernoulli(), TruncatedNormal(0.5, 0.1, 0.0, [1.0, 1.1, 1.0]), "prior must lie in [0, 1]"),
        (Exponential(), Normal(1, 1), "prior must lie in [0, inf]"),
        (Exponential(), Normal(1, 1), "use 'inverse_gamma', or 'truncated_normal'"),
        (Poisson(), TruncatedNormal(0.5, 0.1, -0.1), "prior must lie in [0, inf]"),
        (Poisson(), Normal(1, 1), "use 'gamma', or 'truncated_normal'"),
    ],
)
def test_problem_refuses_a_prior_on_impossible_means(likelihood, prior, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(likelihood, prior, 3)


def test_problem_refuses_a_dependent_prior_outside_the_support():
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.1], [0.1, 1.0]], high=[1.0, 2.0])
    with pytest.raises(ValueError, match=re.escape("prior must lie in [0, 1]")):
        BanditProblem(Bernoulli(), prior, 2)


@pytest.mark.parametrize(
    "prior", [Beta([1, 2, 3], 1), TruncatedMultivariateNormal(0.5, np.eye(3))], ids=["beta", "tmvn"]
)
def test_problem_refuses_parameters_for_other_arms(prior):
    text = "prior must have 4 values in its per-arm parameters, one per arm, got 3."
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 4)


@pytest.mark.parametrize("num_arms", [1, 0, -3])
def test_problem_refuses_fewer_than_two_arms(num_arms):
    text = f"num_arms must be an integer of at least 2, got {num_arms}."
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), Beta(1, 1), num_arms)


@pytest.mark.parametrize("num_arms", [2.0, "3", True, None])
def test_problem_refuses_a_number_of_arms_of_another_kind(num_arms):
    with pytest.raises(TypeError, match="num_arms must be an integer of at least 2, got"):
        BanditProblem(Bernoulli(), Beta(1, 1), num_arms)


@pytest.mark.parametrize("likelihood", ["bernoulli", Bernoulli, None, {"name": "bernoulli"}])
def test_problem_refuses_what_is_no_likelihood(likelihood):
    text = "likelihood must be a likelihood such as Bernoulli(), got"
    with pytest.raises(TypeError, match=re.escape(text)):
        BanditProblem(likelihood, Beta(1, 1), 3)


@pytest.mark.parametrize("prior", ["beta", Beta, None, {"name": "beta"}, UniformPrior])
def test_problem_refuses_what_is_no_prior(prior):
    text = "prior must be a prior such as Beta(1, 1), or have the methods sample and log_density"
    with pytest.raises(TypeError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda law: law.name)
def test_problem_accepts_a_prior_of_the_users_own(likelihood):
    assert BanditProblem(likelihood, UniformPrior(), 3).num_arms == 3


def test_problem_leaves_global_randomness_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    BanditProblem(Bernoulli(), UniformPrior(), 3)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        (
            _prior_with(sample=lambda self, rng, shape: rng.random(3)),
            "prior.sample(rng, (50, 3)) must return numbers of shape (50, 3), got shape (3,).",
        ),
        (
            _prior_with(sample=lambda self, rng, shape: rng.random(shape[0])[:2]),
            "prior.sample(rng, (3,)) must return numbers of shape (3,), got shape (2,).",
        ),
        (
            _prior_with(sample=lambda self, rng, shape: "means"),
            "prior.sample(rng, (3,)) must return numbers of shape (3,), got ValueError(",
        ),
        (
            _prior_with(sample=lambda self, rng, shape: 3.0 + rng.random(shape)),
            "prior.sample must draw means that bernoulli rewards can have, got 3.63",
        ),
        (
            _prior_with(sample=lambda self, rng, shape: np.full(shape, np.nan)),
            "prior.sample must draw means that bernoulli rewards can have, got nan.",
        ),
        (
            _prior_with(log_density=lambda self, means: means.sum()),
            "prior.log_density(means of shape (50, 3)) must return numbers of shape (50,), got "
            "shape ().",
        ),
        (
            _prior_with(log_density=lambda self, means: 0.0 if means[0] < 1 else -np.inf),
            "prior.log_density(means of shape (50, 3)) must return numbers of shape (50,), got "
            "ValueError('The truth value of an array",
        ),
        (
            _prior_with(log_density=lambda self, means: np.full(means.shape[:-1], np.nan)),
            "prior.log_density must be finite or -inf, also at means [0.63696169 0.26978671 "
            "0.04097352], got nan.",
        ),
        (
            _prior_with(log_density=lambda self, means: np.full(means.shape[:-1], np.inf)),
            "prior.log_density must be finite or -inf, also at means [0.63696169",
        ),
        (
            _prior_with(log_density=lambda self, means: means.sum(axis=min(1, means.ndim - 1))),
            "prior.log_density(means of shape (3, 2, 3)) must return numbers of shape (3, 2), got "
            "shape (3, 3).",
        ),
        (
            _prior_with(
                sample=lambda self, rng, shape: 0.5 + 0.01 * rng.random(shape),
                log_density=lambda self, means: np.where(means[..., 0] < 0.5, np.nan, 0.0),
            ),
            "prior.log_density must be finite or -inf, also at means [0.4",
        ),
        (
            _prior_with(log_density=lambda self, means: np.full(means.shape[:-1], -np.inf)),
            "prior.log_density must be a number at the prior's own draws, and not -inf at all of "
            "them, got array(-inf).",
        ),
    ],
)
def test_problem_says_what_a_prior_of_the_users_own_does_wrong(prior, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


@pytest.mark.parametrize(
    ("name", "support"),
    [("support", (0.0, 0.9)), ("arm_support", lambda num_arms: np.tile([0.0, 0.9], (num_arms, 1)))],
)
def test_problem_refuses_a_support_without_the_priors_own_draws(name, support):
    prior = _prior_with()
    setattr(prior, name, support)
    text = f"prior.{name} must contain the prior's own draws, [0, 0.9] for arm 2, got 0.9"
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


def test_problem_refuses_densities_of_arms_of_another_shape():
    prior = _prior_with()
    prior.arm_log_density = lambda means: means.sum(axis=-1)
    text = "prior.arm_log_density(means of shape (3,)) must return numbers of shape (3,), got"
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


def test_problem_refuses_densities_of_arms_that_do_not_add_up():
    prior = _prior_with()
    prior.arm_log_density = lambda means: np.log(means)
    text = "prior.arm_log_density must add up over the arms to log_density and a constant, got"
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


def test_problem_keeps_the_error_of_the_users_prior_as_the_cause():
    with pytest.raises(ValueError, match="got ZeroDivisionError") as caught:
        BanditProblem(Bernoulli(), _prior_with(log_density=lambda self, means: 1 / 0), 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=lambda prior: prior.name)
def test_dict_makes_an_equal_problem(prior):
    problem = BanditProblem(Gaussian(0.5), prior, 3)
    settings = json.loads(json.dumps(problem.to_dict()))
    assert settings == problem.to_dict()
    assert problem_from_dict(settings) == problem


def test_dict_of_a_prior_of_the_users_own_needs_its_to_dict():
    problem = BanditProblem(Bernoulli(), UniformPrior(), 3)
    with pytest.raises(TypeError, match="prior must have a method 'to_dict', got"):
        problem.to_dict()


def test_dict_with_a_missing_key_names_it():
    with pytest.raises(ValueError, match="problem must have the key 'num_arms', got"):
        problem_from_dict({"likelihood": {"name": "bernoulli"}, "prior": {"name": "beta"}})


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=lambda prior: prior.name)
def test_problem_pickles(prior):
    problem = BanditProblem(Gaussian(), prior, 3)
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_an_independent_prior_of_the_users_own_is_tried_like_any_other():
    class Halves(IndependentPrior):
        name, positive = "halves", ()

        def sample(self, rng, shape):
            return 0.5 * rng.random(shape) + 5.0

        def arm_log_density(self, means):
            return np.where((means >= 5.0) & (means <= 5.5), np.log(2.0), -np.inf)

        def natural_parameters(self, num_arms):
            return np.zeros((num_arms, 5))

        def arm_support(self, num_arms):
            return np.tile([5.0, 5.5], (num_arms, 1))

    assert BanditProblem(Poisson(), Halves(), 3).num_arms == 3
    with pytest.raises(ValueError, match="must draw means that bernoulli rewards can have, got 5"):
        BanditProblem(Bernoulli(), Halves(), 3)
