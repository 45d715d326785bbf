"""Priors and likelihoods of a user's own: right ones pass, wrong ones are told in one sentence."""

import re
import warnings
from itertools import product
from math import inf

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_LIKELIHOODS, DensityOnly, Flipped
from geometric import Geometric
from refusals import check_refusals
from scipy import special, stats
from surface import list_capabilities, problem_of, started

from agents.oracle import action_probabilities
from agents.racing.coverage import estimate_bias
from agents.racing.races import draw_weighted
from bandit_gym.doubts import Doubt
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.fidelity.distance import measure_excess
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson, check_likelihood
from bandit_gym.likelihoods.checker import check_ratios
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import (
    Beta,
    Gamma,
    HierarchicalBeta,
    InverseGamma,
    LogitNormal,
    Mixture,
    MultivariateNormal,
    Normal,
    NormalInverseGamma,
    PerArm,
    SharedMixture,
    StudentT,
    TruncatedMultivariateNormal,
    TruncatedNormal,
    check_prior,
    spike_and_slab,
)
from bandit_gym.problem import BanditProblem, ContextualProblem
from bandit_gym.rollout import play_steps

NUM_ARMS = 3


def prior_with(**members):
    """Return a prior of independent uniform means, all that a user needs to write, but for these.

    Its `sample` and `log_density` may be given, and what it states of its support.
    """

    def sample(self, rng, shape):
        return rng.random(shape)

    def log_density(self, means):
        return np.where(((means >= 0) & (means <= 1)).all(axis=-1), 0.0, -inf)

    return type("Own", (), {"sample": sample, "log_density": log_density, **members})()


def draws_between(low, high):
    return {"sample": lambda self, rng, shape: rng.uniform(low, high, shape)}


def drawing(draw):
    return {"sample": lambda self, rng, shape: draw(rng, shape)}


def believing(log_density):
    return {"log_density": lambda self, means: log_density(means)}


def constant_density(value):
    return believing(lambda means: np.full(means.shape[:-1], value))


def of_arms(arm_log_density):
    return {"arm_log_density": lambda self, means: arm_log_density(means)}


def ending(arm_support):
    return {"arm_support": lambda self, num_arms: arm_support(num_arms)}


BESIDE = draws_between(0.5, 0.51) | believing(lambda x: np.where(x[..., 0] < 0.5, np.nan, 0.0))
DENSITIES = "log_density(means of shape (50, 3)) must return numbers of shape (50,)"
STACKED = "log_density(means of shape (3, 2, 3)) must return numbers of shape (3, 2), got shape"
FINITE = "prior.log_density must be finite or -inf, also at means ["
SUPPORT = " must contain the prior's own draws, [0, 0.9] for arm 2, got 0.9"
ADD_UP = "prior.arm_log_density must add up over the arms to log_density and a"
WRONG_PRIORS = [
    (drawing(lambda rng, shape: rng.random(3)), "of shape (50, 3), got shape (3,)."),
    (drawing(lambda rng, shape: rng.random(shape[0])[:2]), "of shape (3,), got shape (2,)."),
    (drawing(lambda rng, shape: "means"), "prior.sample(rng, (3,)) must return numbers of shape"),
    (draws_between(3, 4), "must draw means that bernoulli rewards can have, got 3.63"),
    (drawing(lambda rng, shape: np.full(shape, np.nan)), "rewards can have, got nan."),
    (believing(lambda means: means.sum()), DENSITIES + ", got shape ()"),
    (believing(lambda means: 0.0 if means[0] < 1 else -inf), DENSITIES + " and not raise, got Val"),
    (believing(lambda means: means.sum(axis=min(1, means.ndim - 1))), STACKED),
    (
        believing(lambda means: np.square(means, out=means).sum(axis=-1)),
        "(3,)) must leave the arrays",
    ),
    (believing(lambda means: means.sum(axis=-1).tolist()), "(50, 3)) must return an array, got [1"),
    (drawing(lambda rng, shape: rng.random(shape).tolist()), "sample must return an array that is"),
    (drawing(lambda rng, shape: np.random.default_rng().random(shape)), "drawn from its generator"),
    (constant_density(np.nan), FINITE + "0.63696169 0.26978671 0.04097352], got nan."),
    (constant_density(inf), FINITE + "0.63696169"),
    (constant_density(-inf), "must be a number at the prior's own draws, and not -inf at all"),
    (BESIDE, FINITE + "0.4"),
    ({"support": (0.0, 0.9)}, "prior.support" + SUPPORT),
    (ending(lambda num_arms: [[0.0, 0.9]] * num_arms), "prior.support" + SUPPORT),
    ({"support": (0.5, 0.2)}, "prior.support must be ends that rise, got"),
    ({"support": (0.1, 0.2, 0.5)}, "prior.support must return numbers of shape (3, 2)"),
    (ending(lambda num_arms: 1 / 0), "numbers of shape (3, 2) and not raise"),
    (of_arms(lambda means: means.sum(axis=-1)), "must return numbers of shape (3,), got"),
    *((of_arms(density), ADD_UP) for density in (np.log, lambda x: np.where(x > 0.5, 0, -inf))),
]


def test_a_wrong_prior_is_refused_in_one_sentence():
    check_refusals(lambda own: check_prior(prior_with(**own), Bernoulli(), NUM_ARMS), WRONG_PRIORS)


class Pair:
    """A prior that draws from one law and has the density of another, up to a constant."""

    def __init__(self, drawn, believed):
        self.drawn, self.believed = drawn, believed

    def sample(self, rng, shape):
        return self.drawn.sample(rng, shape)

    def log_density(self, means):
        return self.believed.log_density(means) + 3.0


CORRELATED = TruncatedMultivariateNormal(0.5, (0.02 * (0.2 * np.eye(4) + 0.8)).tolist())
FLAT = prior_with(**drawing(lambda rng, shape: rng.normal(size=shape)), **constant_density(0.0))
DISAGREEING = {
    "width": (Bernoulli(), Pair(TruncatedNormal(0.5, 0.1), TruncatedNormal(0.5, 0.15))),
    "swapped": (Bernoulli(), Pair(Beta(2.0, 3.0), Beta(3.0, 2.0))),
    "correlation": (Bernoulli(), Pair(CORRELATED, TruncatedNormal(0.5, 0.02**0.5))),
    "a forgotten Jacobian": (Exponential(), Pair(InverseGamma(3.0, 2.0), Gamma(3.0, 2.0))),
    "rate for scale": (Poisson(), Pair(Gamma(2.0, 3.0), Gamma(2.0, 1 / 3.0))),
    "heavy tails": (Gaussian(), Pair(StudentT(1.0), StudentT(1.0, 0.0, 1.5))),
    "improper": (Gaussian(), FLAT),
    "unbounded": (Gaussian(), prior_with(**constant_density(0.0))),
}
NO_ENDS = prior_with(**of_arms(lambda x: np.where((x >= 0) & (x <= 1), 0.0, -inf)))
AGREEING = {
    "piled up at both edges": (Bernoulli(), Pair(Beta(0.1, 0.1), Beta(0.1, 0.1))),
    "mixture": (Bernoulli(), Mixture([Beta(2.0, 8.0), Beta(8.0, 2.0)], [4.0, 1.0])),
    "spike": (Bernoulli(), spike_and_slab(0.3, 0.001, Beta(1.0, 1.0), 0.8)),
    "logit": (Bernoulli(), LogitNormal(-0.5, 0.8)),
    "levels": (Bernoulli(), HierarchicalBeta([2.0, 18.0], [18.0, 2.0])),
    "correlated": (Bernoulli(), Pair(CORRELATED, CORRELATED)),
    "no variance": (Exponential(), Pair(InverseGamma(1.1, 1.0), InverseGamma(1.1, 1.0))),
    "no moments": (Exponential(), Pair(InverseGamma(0.01, 1.0), InverseGamma(0.01, 1.0))),
    "narrow": (Gaussian(), Pair(Normal(0.0, 1e-6), Normal(0.0, 1e-6))),
    "of a user's own": (Bernoulli(), PerArm([Mixture([NO_ENDS], [1]), *[NO_ENDS] * 3])),
    **{f"uniform, {law.name}": (law, prior_with()) for law in ALL_LIKELIHOODS if law.contains(0.1)},
}


@pytest.mark.parametrize(("likelihood", "prior"), DISAGREEING.values(), ids=DISAGREEING)
def test_a_density_that_is_not_that_of_the_draws_is_refused_alike_each_time(likelihood, prior):
    with pytest.raises(ValueError, match="the same distribution, got an average") as caught:
        check_prior(prior, likelihood, 4)
    with pytest.raises(ValueError, match=f"^{re.escape(str(caught.value))}$"):
        check_prior(prior, likelihood, 4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("likelihood", "prior"), AGREEING.values(), ids=AGREEING)
def test_a_prior_that_agrees_with_itself_raises_no_alarm(likelihood, prior):
    """And the global generator stays where it is."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    check_prior(prior, likelihood, 4)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_a_problem_refuses_wrong_shapes_nan_and_supports_and_leaves_distributions_to_the_check():
    for members in (draws_between(3, 4), constant_density(np.nan), {"support": (0.0, 0.9)}):
        with pytest.raises(ValueError, match="prior"):
            BanditProblem(Bernoulli(), prior_with(**members), NUM_ARMS)
    with pytest.raises(ValueError, match="must return numbers of shape"):
        BanditProblem(own(Geometric, **paying(lambda means, u: 0.0)), Gamma(1, 1), NUM_ARMS)
    assert BanditProblem(Gaussian(), FLAT, NUM_ARMS).num_arms == NUM_ARMS


def test_without_a_likelihood_a_prior_is_tried_with_all_finite_means_and_its_own_arms():
    check_prior(Pair(Normal(0.0, 1.0), Normal(0.0, 1.0)))
    check_prior(CORRELATED)
    with pytest.raises(ValueError, match="must describe the same distribution"):
        check_prior(Pair(Normal(0.0, 1.0), Normal(0.0, 2.0)))
    with pytest.raises(TypeError, match="prior must have the methods sample and log_density"):
        check_prior(Geometric())


@pytest.mark.filterwarnings("error")
def test_a_density_is_not_asked_where_the_likelihood_has_no_means():
    prior = prior_with(
        sample=lambda self, rng, shape: rng.triangular(0.0, 0.3, 1.0, shape),
        log_density=lambda self, means: np.log(np.minimum(means / 0.3, (1 - means) / 0.7)).sum(-1),
        support=(-1.0, 2.0),
    )
    assert BanditProblem(Bernoulli(), prior, NUM_ARMS).arm_support()[0, 1] == 1.0


UNIFORM = draws_between(0.2, 0.5) | believing(
    lambda means: np.where(((means >= 0.2) & (means <= 0.5)).all(axis=-1), 0.0, -inf)
)


STATED = [
    (Bernoulli(), {"support": (0.2, 0.5)}, [0.2, 0.5]),
    (Bernoulli(), {"support": (0, 1)} | ending(lambda k: [[0.2, 0.5]] * k), [0.2, 0.5]),
    (Bernoulli(), {"support": (-3, 0.5)}, [0.0, 0.5]),
    (Bernoulli(), {"support": (-inf, inf)}, [0.0, 1.0]),
    (Poisson(), {}, [0.0, inf]),
    (Gaussian(), {"support": None}, [-inf, inf]),
]


def test_means_of_a_problem_lie_where_prior_and_likelihood_allow():
    for likelihood, stated, expected in STATED:
        support = BanditProblem(likelihood, prior_with(**UNIFORM, **stated), NUM_ARMS).arm_support()
        assert support.tolist() == [expected] * NUM_ARMS


ARMWISE, NATURAL = {"log_density", "arm_log_density"}, "natural_parameters"


@pytest.mark.parametrize("method", ["auto", "grid"])
def test_a_subclass_that_draws_otherwise_is_no_longer_conjugate(method):
    class Low(Beta):
        support = (0.0, 0.5)

        def sample(self, rng, shape):
            return super().sample(rng, shape) / 2

        def arm_log_density(self, means):
            return super().arm_log_density(2 * np.asarray(means))

    agent = started("exact", BanditProblem(Bernoulli(), Low(2.0, 2.0), 2), None, method=method)
    assert agent.method == "grid"
    np.testing.assert_allclose(agent.posterior().mean(), 0.25, rtol=1e-6)


def test_a_subclass_of_a_normal_prior_that_draws_otherwise_is_none():
    class Folded(Normal):
        def sample(self, rng, shape):
            return abs(super().sample(rng, shape))

        def arm_log_density(self, means):
            return np.where(np.asarray(means) < 0, -inf, super().arm_log_density(means))

        def log_density(self, means):
            return self.arm_log_density(means).sum(axis=-1)

    problem = ContextualProblem(Bernoulli(), Folded(0.0, 1.0), 2, 2)
    for name in ("racing", "smc"):
        agent = started(name, problem)
        agent.observe(0, 0.0, observation=np.eye(2))
        agent.act(np.eye(2))
        assert (agent.posterior().coefficients.sample(1000, seed=0) >= 0).all()


def test_a_subclass_of_the_joint_prior_that_draws_otherwise_is_refused():
    class Positive(NormalInverseGamma):
        def sample(self, rng, shape):
            return abs(super().sample(rng, shape))

    with pytest.raises(ValueError, match="prior must be a NormalInverseGamma"):
        BanditProblem(Gaussian(std=None), Positive(), 2)


def test_a_subclass_that_sorts_its_draws_has_them_sorted_in_environments():
    class Ordered(TruncatedMultivariateNormal):
        def sample(self, rng, shape):
            return np.sort(super().sample(rng, shape))

    prior = Ordered(0.5, np.eye(3).tolist(), 0.0, 1.0)
    env = BanditVectorEnv(20, BanditProblem(Bernoulli(), prior, 3))
    env.reset(seed=0)
    assert (np.diff(env.means) > 0).all()


LEAVING = [
    PerArm([Normal(0.5, 0.15)] * 2),
    Mixture((Beta(1.0, 1.0), Normal(0.5, 0.1)), (0.5, 0.5)),
    SharedMixture((Beta(1.0, 1.0), Normal(0.5, 0.1)), (0.5, 0.5)),
    MultivariateNormal(0.5, [[0.02, 0.01], [0.01, 0.02]]),
]


def test_means_that_rewards_cannot_have_are_refused_before_or_as_they_are_drawn():
    for prior in LEAVING:
        with pytest.raises(ValueError, match=r"prior must lie in \[0, 1\]"):
            BanditProblem(Bernoulli(), prior, 2)
    own = prior_with(sample=lambda self, rng, shape: rng.normal(0.5, 0.15, shape))
    env = BanditVectorEnv(5000, BanditProblem(Bernoulli(), own, NUM_ARMS))
    with pytest.raises(ValueError, match="prior.sample must draw means that bernoulli rewards can"):
        env.reset(seed=0)


def test_ends_of_a_mixture_are_those_of_each_arm():
    part = TruncatedNormal([0.2, 0.8], 0.2, [0.0, 0.6], [0.5, 1.0])
    for kind in (Mixture, SharedMixture):
        assert kind((part, part), (0.5, 0.5)).arm_support(2).tolist() == [[0.0, 0.5], [0.6, 1.0]]


def test_a_prior_offers_what_it_has_and_no_more():
    joint = TruncatedMultivariateNormal(0.5, np.eye(3).tolist())
    by_arm = prior_with(arm_log_density=lambda self, means: np.zeros_like(means))
    for prior, expected in [
        (Beta(1, 1), {*ARMWISE, NATURAL, "quantile"}),
        (Flipped(1, 2), {"log_density"}),  # of other draws than what it inherits
        (TruncatedNormal(0.5, 0.1), {*ARMWISE, NATURAL, "quantile"}),
        (joint, {"log_density", "normal_box", "sample_each"}),
        (Mixture([Beta(1, 1), Beta(2, 1)], [1, 1]), ARMWISE),
        (LogitNormal(0, 1), ARMWISE),
        (HierarchicalBeta([1, 2], [2, 1]), {"log_density", "shared_components"}),
        (prior_with(), {"log_density"}),
        (by_arm, ARMWISE),
        (Beta, set()),
    ]:
        assert list_capabilities(prior) == expected, prior


def own(base, **members):
    return type("Own", (base,), {"name": "own", **members})()


def weighing(change):
    """Return the right log-likelihood, changed by `change(value, means, counts, sums)`."""

    def log_likelihood(self, means, counts, sums):
        x = np.where(self.contains(means), means, 1.0)
        return change(Geometric().log_likelihood(means, counts, sums), x, counts, sums)

    return {"log_likelihood": log_likelihood}


def torn(value):
    """Return a log-likelihood that has this value at means around a half."""
    return weighing(lambda right, x, n, s: np.where((x > 0.45) & (x < 0.7), value, right))


def weigh_odds(self, means, counts, sums):
    """Return the log-likelihood of the success probability, mistaken for that of the mean."""
    x = np.clip(means, 1e-9, 1 - 1e-9)
    value = np.log(x) * counts + np.log1p(-x) * sums
    return np.where(self.contains(means), value, -inf)


def weigh_clipped(self, means, counts, sums):
    return Geometric().log_likelihood(np.clip(means, 0.3, 3.0, out=means), counts, sums)


def paying(sample):
    return {"sample": lambda self, means, u: sample(means, u)}


draw = Geometric().sample
GAPS = "log_likelihood must be finite or -inf at possible means, got "
POSSIBLE = "sample must draw rewards that is_possible accepts, got "
AVERAGE = "sample must draw rewards that average the mean, 0.01, got"
LINEAR = "log_likelihood must be linear in counts and sums, up to a term without the mean, got"
WRONG_LIKELIHOODS = [
    (torn(np.nan), GAPS + "nan"),
    (weighing(lambda right, x, n, s: right.sum()), "must return numbers of shape (4, 8), got"),
    (weighing(lambda right, x, n, s: 1 / 0), "of shape (4, 8) and not raise, got Zero"),
    (weighing(lambda right, x, n, s: right + np.subtract(n, 1) * np.log1p(x)), LINEAR),
    (weighing(lambda right, x, n, s: right - np.square(s) * np.log1p(x)), LINEAR),
    ({"log_likelihood": weigh_clipped}, "must leave the arrays that it is given as they are, got"),
    ({"log_likelihood": weigh_odds}, "must be largest where the mean is the rewards' average, got"),
    (weighing(lambda right, x, n, s: np.maximum(right, -1e9)), "must be -inf at means outside the"),
    (paying(lambda means, u: draw(means, u) - 1), POSSIBLE + "-1.0."),
    (paying(lambda means, u: draw(means, u) * np.nan), POSSIBLE + "nan."),
    (paying(lambda means, u: draw(means, 1 - np.maximum(u, 1e-9))), "sample must not fall as the"),
    (paying(lambda means, u: draw(np.max(means), u)), "of shape (8, 154), got shape (154,)."),
    (paying(lambda means, u: draw(means, u) + 1), AVERAGE),
    (paying(lambda means, u: draw(means, u) * 0), AVERAGE),
    ({"reward_std": lambda self, x: np.sqrt(x) / 9}, "reward_std must be the standard deviation"),
    ({"reward_std": lambda self, x: x * np.nan}, "reward_std must be the standard deviation of"),
    (paying(Poisson().sample), "must describe the rewards that sample draws at the mean 0.1: "),
    ({"is_possible": lambda self, rewards: ~np.less(rewards, 0)}, "must be False for NaN and"),
    ({"support": (1.0, 0.0)}, "support must be a pair of numbers that rise, got (1.0, 0.0)."),
    ({"support": None}, "support must be a pair of numbers that rise, got None"),
    ({"contains": lambda self, x: np.full(np.shape(x), False)}, "contains must be True for means"),
    ({"name": "bernoulli"}, "name must be none of a built-in likelihood"),
    ({"name": None}, "name must be a string, got None"),
]


def test_a_wrong_likelihood_is_refused_in_one_sentence():
    check_refusals(lambda members: check_likelihood(own(Geometric, **members)), WRONG_LIKELIHOODS)


@pytest.mark.parametrize(
    "likelihood",
    [*(own(type(law)) for law in ALL_LIKELIHOODS), Gaussian(1e-3), Geometric()],
    ids=repr,
)
def test_a_right_likelihood_raises_no_alarm(likelihood):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_likelihood(likelihood)


def add_noise(quantile):
    return paying(lambda means, u: means + quantile(np.maximum(u, 2.0**-54)))


@pytest.mark.parametrize(
    "quantile",
    [stats.t(5).ppf, stats.norm(scale=1.2).ppf, stats.norm(scale=0.8).ppf, stats.laplace.ppf],
    ids=["t", "wide", "narrow", "laplace"],
)
def test_a_normal_density_of_other_rewards_is_refused_with_both_numbers(quantile):
    text = r"divided by that of -?[\d.]+ must average 1, got [\d.e+]+\."
    with pytest.raises(ValueError, match=text):
        check_likelihood(own(Gaussian, **add_noise(quantile)))


def test_no_built_in_density_is_refused_anywhere_in_its_support():
    small = np.geomspace(1e-12, 0.5, 30)
    means = {(0.0, 1.0): np.concatenate([[0.0, 1.0], small, 1 - small])}
    positive = np.geomspace(1e-9, 1e6, 60)
    for likelihood in (*ALL_LIKELIHOODS, Gaussian(1e-3), Gaussian(1e3)):
        wide = np.concatenate([-positive, positive]) if likelihood.support[0] < 0 else positive
        check_ratios(likelihood, means.get(likelihood.support, wide))


def test_it_is_said_how_to_write_a_likelihood_where_there_is_a_lookalike():
    lookalike = type("Lookalike", (), dict(vars(Geometric)))()
    with pytest.raises(TypeError, match="is a subclass of bandit_gym.likelihoods.Likelihood"):
        check_likelihood(lookalike)


class Levels(DensityOnly):
    """All arms' means come from one of 36 Beta laws, of which nothing is told."""

    def __init__(self):
        sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        self.alphas, self.betas = np.array([*product(sizes, sizes)]).T
        super().__init__(HierarchicalBeta(self.alphas.tolist(), self.betas.tolist()))

    def log_density(self, means):
        """Return the logarithm of the sum over laws, by two sums over arms: a tenth of the time."""
        x = np.clip(means, 1e-15, 1 - 1e-15)
        sums = np.stack([np.log(x).sum(axis=-1), np.log1p(-x).sum(axis=-1)], axis=-1)
        constants = x.shape[-1] * special.betaln(self.alphas, self.betas)
        return special.logsumexp(sums @ [self.alphas - 1, self.betas - 1] - constants, axis=-1)

    def best_arms(self, counts, sums):
        """Return (K,) best-arm probabilities: the oracle's quadrature, which is told the levels."""
        problem = BanditProblem(Bernoulli(), self.prior, len(counts))
        return action_probabilities(problem, counts, sums)


class Region:
    """Means that are uniform where they may be."""

    def log_density(self, means):
        is_inside = ((means > 0) & (means < 1)).all(axis=-1) & self.contains(means)
        return np.where(is_inside, 0.0, -inf)


class Ordered(Region):
    """Each arm is better than the one before."""

    def sample(self, rng, shape):
        return np.sort(rng.random(shape), axis=-1)

    def contains(self, means):
        return (np.diff(means) > 0).all(axis=-1)

    def best_arms(self, counts, sums):
        """Return (K,) best-arm probabilities: all of the last arm."""
        return np.eye(len(counts))[-1]


class OnePeak(Region):
    """Means rise up to some arm and fall from there on."""

    def sample(self, rng, shape):
        falling = -np.sort(-rng.random(shape), axis=-1)
        is_left = rng.random(shape) < 0.5
        place = np.where(is_left, -1, 1) * np.arange(shape[-1])  # the further out, the smaller
        return np.take_along_axis(falling, place.argsort(axis=-1), axis=-1)

    def contains(self, means):
        steps = np.diff(means)
        return ~((steps[..., :-1] < 0) & (steps[..., 1:] > 0)).any(axis=-1)

    def best_arms(self, counts, sums):
        """Return what 200,000 draws of uniform arms' posteriors did that had one peak, for PEAK."""
        assert (counts, sums) == PEAK
        return np.array([0.014, 0.3943, 0.1491, 0.4021, 0.0137, 0.0217, 0.0051])


class Shares(Region):
    """All but the last share of a uniform Dirichlet law."""

    def sample(self, rng, shape):
        return rng.dirichlet(np.ones(shape[-1] + 1), shape[:-1])[..., :-1]

    def contains(self, means):
        return means.sum(axis=-1) < 1

    def best_arms(self, counts, sums):
        """Return what a million draws of a Gibbs sampler did for DIVIDED, by arm."""
        assert (counts, sums) == DIVIDED
        rare, some = 0.0111, 0.0649
        return np.array([some, rare, 0.208, some, rare, rare, some, 0.4882, rare, some]) / 1.0002


PEAK = [20, 0, 20, 0, 20, 0, 0], [10, 0, 11, 0, 9, 0, 0]
DIVIDED = [5] * 10, [1, 0, 2, 1, 0, 0, 1, 3, 0, 1]
SKEWED = {
    "levels, few": (Levels(), [50, 50, 5], [45, 5, 5], 125),
    "levels, more": (Levels(), [100, 100, 3], [90, 20, 3], 250),
    "levels, many": (Levels(), [1000, 1000, 3], [900, 200, 3], 4000),
    "ordered": (Ordered(), [10] * 4, [8, 6, 4, 2], 500),
    "one peak": (OnePeak(), *PEAK, 250),
    "shares": (Shares(), *DIVIDED, 125),
}


@pytest.mark.parametrize(("prior", "counts", "sums", "num_lanes"), SKEWED.values(), ids=SKEWED)
def test_races_of_few_heavy_draws_are_right_or_flagged(prior, counts, sums, num_lanes):
    problem = BanditProblem(Bernoulli(), prior, len(counts))
    agent = started("racing", problem, num_lanes, counts, sums)
    shares = np.bincount(agent.act(), minlength=len(counts)) / num_lanes
    found = measure_excess(shares, prior.best_arms(counts, sums), num_lanes)
    is_right = found.excess <= 0.01 + 4 * found.std
    assert is_right or agent.diagnostics()["is_unreliable"].mean() >= 0.9


@pytest.mark.parametrize("name", ["levels, few", "levels, more", "levels, many"])
def test_pilots_give_skewed_races_the_length_that_many_more_draws_show(name):
    """What 65,536 draws show that a race of this length misses, by `estimate_bias`."""
    prior, counts, sums, _ = SKEWED[name]
    agent = started("racing", BanditProblem(Bernoulli(), prior, len(counts)), 1, counts, sums)
    agent.act()
    length = agent.diagnostics()["num_samples"]
    draws = draw_weighted(make_generator("many"), agent.belief().proposal, np.array([0]), 1 << 16)
    assert estimate_bias(draws) / (length * draws.effective_sample_size() / (1 << 16)) <= 0.01


@pytest.mark.parametrize(("prior", "counts", "sums", "num_lanes"), SKEWED.values(), ids=SKEWED)
def test_propensities_from_few_heavy_draws_are_right_or_warned_of(prior, counts, sums, num_lanes):
    """Those asked for alone too: right to 0.01, or to the error that the posterior states."""
    agent = started("racing", BanditProblem(Bernoulli(), prior, len(counts)), None, counts, sums)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = agent.action_probabilities()
    posterior = agent.posterior()
    assert len(caught) == bool(posterior.doubts)
    distance = abs(found - prior.best_arms(counts, sums)).sum() / 2
    assert caught or distance <= max(0.01, posterior.best_arm_error())


@pytest.fixture
def few_weighted_draws(monkeypatch):
    """Let answers rest on the fewest draws, where they are doubted however many there are."""
    monkeypatch.setattr("agents.racing.posterior.WEIGHTED_DRAWS", (10_000,))


@pytest.mark.usefixtures("few_weighted_draws")
def test_propensities_that_are_doubted_say_why_and_how_far_off_they_may_be():
    data = [*DIVIDED[0], 5, 5], [*DIVIDED[1], 0, 0]
    problem = BanditProblem(Bernoulli(), Shares(), 12)
    error = started("racing", problem, None, *data).posterior().best_arm_error()
    why = r"\(low coverage, few effective samples\)"
    told = rf"RacingThompson.*{why}, and may be off by more than {error:.2g};"
    assert error > 0.05
    with pytest.warns(RuntimeWarning, match=told) as caught:
        started("racing", problem, None, *data).action_probabilities()
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.usefixtures("few_weighted_draws")
@pytest.mark.filterwarnings("error")
def test_a_run_that_records_propensities_does_not_repeat_the_warning():
    env = gym.make("bandit_gym:CustomBandit-v0", prior=Shares(), num_arms=12)
    agent = started("racing", problem_of(env), None)
    with pytest.raises(RuntimeWarning, match="rests on a posterior that is doubted"):
        agent.action_probabilities()
    seeds = {"env_seed": 0, "agent_seed": np.random.SeedSequence(0)}
    steps = play_steps(agent, env, **seeds, propensities=True)
    assert 0 <= next(steps).propensities[0] <= 1


def test_particles_state_the_error_that_their_common_ancestors_cause():
    """By 500 independent draws it would be half as large: four standard errors of the mean."""
    counts, sums = PEAK
    agent = started("smc", BanditProblem(Bernoulli(), OnePeak(), len(counts)), 60, counts, sums)
    posterior = agent.posterior()
    found = posterior.best_arm_probabilities()
    twice = abs(found - OnePeak().best_arms(counts, sums)).sum(axis=1)
    assert twice.mean() <= posterior.best_arm_error().mean() + 4 * twice.std() / 60**0.5


def test_a_race_whose_pilots_resolve_nothing_is_flagged():
    """Of 10,000 draws of seven means one or two are in order."""
    problem = BanditProblem(Bernoulli(), Ordered(), 7)
    agent = started("racing", problem, 5, [10] * 7, [7, 6, 5, 4, 3, 2, 1])
    agent.act()
    assert agent.diagnostics()["is_unreliable"].all()
    posterior = started("racing", problem, None, [10] * 7, [7, 6, 5, 4, 3, 2, 1]).posterior()
    assert posterior.doubts == Doubt.FEW_EFFECTIVE_SAMPLES | Doubt.LOW_COVERAGE
    title = str(posterior).splitlines()[0]
    assert "from weighted draws, worth " in title
    assert "; doubted: low coverage, few effective samples" in title
