"""What a prior can do, asked in one place, and where its means lie."""

import re
from math import inf

import numpy as np
import pytest
from families import ALL_PRIORS

from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.base import CAPABILITIES, offers
from bandit_gym.priors.mixtures import HierarchicalBeta, LogitNormal, Mixture
from bandit_gym.problem import BanditProblem

ARMWISE, NATURAL = {"log_density", "arm_log_density"}, "natural_parameters"
DEPENDENT = TruncatedMultivariateNormal(0.5, np.eye(3).tolist(), low=[0.1, 0.2, 0.3])


class Narrow:
    """Uniform means in [0.2, 0.5], and a statement of where they lie."""

    def __init__(self, **statements):
        vars(self).update(statements)

    def sample(self, rng, shape):
        return rng.uniform(0.2, 0.5, shape)

    def log_density(self, means):
        return np.where(((means >= 0.2) & (means <= 0.5)).all(axis=-1), 0.0, -inf)


class Flipped(Beta):
    """A law of a user's own, who has found it handy to begin with ours."""

    def sample(self, rng, shape):
        return 1 - super().sample(rng, shape)


class Wide(Narrow):
    """Uniform means in [0, 1], whatever is stated."""

    def sample(self, rng, shape):
        return rng.random(shape)

    def log_density(self, means):
        return np.where(((means >= 0) & (means <= 1)).all(axis=-1), 0.0, -inf)


class LastArmOnly(Narrow):
    """The density forgets that the last arm, too, ends at 0.5."""

    def log_density(self, means):
        is_inside = (means >= 0.2) & ((means <= 0.5) | (np.arange(means.shape[-1]) == 2))
        return np.where(is_inside.all(axis=-1) & (means <= 0.9).all(axis=-1), 0.0, -inf)


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (Beta(1, 1), {*ARMWISE, NATURAL, "propose"}),
        (Flipped(1, 2), {*ARMWISE, NATURAL}),
        (TruncatedNormal(0.5, 0.1), {*ARMWISE, NATURAL, "propose"}),
        (DEPENDENT, {"log_density", "normal_box", "sample_each"}),
        (Mixture([Beta(1, 1), Beta(2, 1)], [1, 1]), ARMWISE),
        (LogitNormal(0, 1), ARMWISE),
        (HierarchicalBeta([1, 2], [2, 1]), {"log_density"}),
        (Narrow(), {"log_density"}),
        (Narrow(arm_log_density=np.zeros_like), ARMWISE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_prior_offers_what_it_has_and_no_more(prior, expected):
    assert {name for name in CAPABILITIES if offers(prior, name)} == expected
    assert {name for name in CAPABILITIES if BanditProblem(Bernoulli(), prior, 3).offers(name)} == (
        expected
    )


def test_a_class_offers_nothing():
    assert not any(offers(Beta, name) for name in CAPABILITIES)


def test_unknown_capability_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="the nearest known one is 'natural_parameters'"):
        offers(Beta(1, 1), "natural_parameter")


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=lambda prior: prior.name)
def test_arm_support_of_a_problem_is_the_built_in_priors(prior):
    problem = BanditProblem(Gaussian(), prior, 3)
    np.testing.assert_array_equal(problem.arm_support(), prior.arm_support(3))


@pytest.mark.parametrize(
    ("likelihood", "prior", "expected"),
    [
        (Bernoulli(), Narrow(support=(0.2, 0.5)), [0.2, 0.5]),
        (Bernoulli(), Narrow(arm_support=lambda k: np.tile([0.2, 0.5], (k, 1))), [0.2, 0.5]),
        (Bernoulli(), Narrow(support=(0, 1), arm_support=lambda k: [[0.2, 0.5]] * k), [0.2, 0.5]),
        (Bernoulli(), Narrow(support=(-3, 0.5)), [0.0, 0.5]),
        (Bernoulli(), Narrow(support=(-inf, inf)), [0.0, 1.0]),
        (Bernoulli(), Narrow(), [0.0, 1.0]),
        (Poisson(), Narrow(), [0.0, inf]),
        (Gaussian(), Narrow(support=None), [-inf, inf]),
    ],
)
def test_arm_support_of_a_problem_is_what_prior_and_likelihood_allow(likelihood, prior, expected):
    support = BanditProblem(likelihood, prior, 3).arm_support()
    assert support.shape == (3, 2)
    assert (support == expected).all()


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        (
            Wide(support=(0.0, 0.9)),
            "prior.support must contain the prior's own draws, [0, 0.9] for arm 2, got 0.9",
        ),
        (
            LastArmOnly(support=(0.2, 0.5)),
            "prior.support must hold all means of finite log_density, which is not -inf at mean "
            "0.5002 of arm 2, got 0.0.",
        ),
        (
            LastArmOnly(arm_support=lambda k: [[0.2, 0.5]] * k),
            "prior.arm_support must hold all means of finite log_density",
        ),
        (Narrow(support=(0.5, 0.2)), "prior.support must be ends that rise, got [[0.5, 0.2], ["),
        (Narrow(support=(0.2, np.nan)), "prior.support must be ends that rise, got"),
        (
            Narrow(support=(0.1, 0.2, 0.5)),
            "prior.support must return numbers of shape (3, 2), got ValueError(",
        ),
        (
            Narrow(arm_support=lambda k: 1 / 0),
            "prior.arm_support must return numbers of shape (3, 2), got ZeroDivisionError(",
        ),
    ],
)
def test_problem_refuses_a_support_that_draws_or_density_contradict(prior, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        BanditProblem(Bernoulli(), prior, 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("support", [None, (0.0, 1.0), (-1.0, 2.0)])
def test_density_is_not_asked_where_the_likelihood_has_no_means(support):
    class Triangular(Narrow):
        def sample(self, rng, shape):
            return rng.triangular(0.0, 0.3, 1.0, shape)

        def log_density(self, means):
            return np.log(np.minimum(means / 0.3, (1 - means) / 0.7)).sum(axis=-1)

    assert BanditProblem(Bernoulli(), Triangular(support=support), 3).arm_support()[0, 1] == 1.0


def test_support_may_be_wider_than_the_density():
    assert BanditProblem(Gaussian(), Normal(0.0, 1.0), 2).arm_support()[0, 1] == inf
    assert BanditProblem(Bernoulli(), Narrow(support=(0.1, 0.9)), 2).arm_support()[0, 0] == 0.1
