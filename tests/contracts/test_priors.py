"""What every prior with a name promises: draws, densities, supports, and the dict it is made of."""

import inspect
import json
import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from families import ALL_PRIORS, NAMED, POSITIVE, SCIPY, Flipped
from scipy import integrate, special, stats
from surface import lane_stream, make_env

from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import (
    PRIORS,
    Beta,
    Gamma,
    HierarchicalBeta,
    IndependentPrior,
    InverseGamma,
    LogitNormal,
    Mixture,
    Normal,
    NormalInverseGamma,
    PerArm,
    Prior,
    SharedMixture,
    TruncatedNormal,
    make_prior,
    prior_from_dict,
    spike_and_slab,
)
from bandit_gym.problem import BanditProblem, problem_from_dict

NUM_DRAWS = 20_000
NUM_ARMS = 3
OF_SCIPY = (
    *(prior for prior in ALL_PRIORS if isinstance(prior, IndependentPrior)),
    Beta(1.0, 1.0),
    Beta([0.5, 1.0, 300.0], [0.5, 1.0, 100.0]),
    Gamma([0.3, 1.0, 50.0], [1e-3, 1.0, 1e3]),
    InverseGamma(2.5, [1e-3, 1.0, 1e3]),
    Normal([-1e3, 0.0, 1e3], [1e-3, 1.0, 1e3]),
    NormalInverseGamma([-1e3, 0.0, 1e3], [1e3, 1.0, 1e-3], [0.3, 2.0, 50.0], [1e-3, 1.0, 1e3]),
    TruncatedNormal([-5.0, 0.5, 7.0], 0.1),
    TruncatedNormal(0.3, [1e-3, 0.3, 1e4]),
    TruncatedNormal([0.0, 2.0, 4.0], 1.0, [-1.0, 2.0, 1.0], [np.pi, 2.01, 1e6]),
    TruncatedNormal(0.0, 1.0, [-40.0, -38.0, 50.0], [1.0, -37.0, 60.0]),
)
"""Those of which SciPy knows every arm's law, also far from where floating point is at ease."""
OF_OURS = {
    "mixture": Mixture([Beta(2.0, 8.0), Beta(8.0, 2.0)], [4.0, 1.0]),
    "spike and slab": spike_and_slab(0.3, 0.02, Beta(1.0, 1.0), 0.8),
    "logit-normal": LogitNormal([-0.5, 0.0, 1.0], 0.8),
    "per arm": PerArm([Beta(2.0, 5.0), TruncatedNormal(0.5, 0.1, 0.2, 0.9), LogitNormal(0, 1)]),
}
"""Independent ones whose densities are integrated."""
ARMWISE = (*OF_SCIPY, *OF_OURS.values())
ALL = (*dict.fromkeys((*ARMWISE, *ALL_PRIORS, *map(prior_from_dict, NAMED.values()))),)
OF_EACH_KIND = (*OF_OURS.values(), *map(prior_from_dict, NAMED.values()))


def gaussian_rewards(prior):
    """Return rewards that go with a prior: with one of deviations too, of an unknown one."""
    return Gaussian(None if isinstance(prior, NormalInverseGamma) else 0.5)


def arm_distribution(prior, arm):
    """Return scipy's frozen distribution of one arm's mean."""
    values = vars(prior).values()
    return SCIPY[prior.name](*(each[arm] if isinstance(each, tuple) else each for each in values))


@pytest.mark.parametrize("prior", OF_SCIPY, ids=repr)
def test_draws_densities_and_supports_are_those_of_scipy(prior, rng):
    draws = prior.sample(rng, (NUM_DRAWS, NUM_ARMS))
    log_density, ends = prior.arm_log_density(draws[:200]), prior.arm_support(NUM_ARMS)
    for arm in range(NUM_ARMS):
        law = arm_distribution(prior, arm)
        assert stats.kstest(draws[:, arm], law.cdf).pvalue > 1e-3
        expected = law.logpdf(draws[:200, arm])
        np.testing.assert_allclose(log_density[:, arm], expected, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(ends[arm], law.support(), rtol=1e-12, atol=1e-12)


def test_density_of_a_truncated_normal_far_out_follows_the_tail_expansion():
    """There phi(x) / P(Z > x) is x / (1 - 1 / x^2); its terms of 5e7 leave eight digits."""
    density = TruncatedNormal(0.0, 1.0, 1e4, 2e4).log_density(np.array([1e4]))
    assert density == pytest.approx(np.log(1e4) - np.log1p(-1e-8), abs=5e7 * 2.0**-50)


def test_natural_parameters_give_the_log_density_up_to_a_constant(rng):
    for prior in (each for each in OF_SCIPY if hasattr(each, "natural_parameters")):
        x = np.sort(prior.sample(rng, (50, NUM_ARMS)), axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):  # features of weight 0 may not exist
            features = np.stack([np.log(x), np.log1p(-x), x, x**2, 1 / x], axis=-1)
        weights = prior.natural_parameters(NUM_ARMS)
        terms = np.where(weights == 0, 0.0, weights * np.where(weights == 0, 0.0, features))
        rest = prior.arm_log_density(x) - terms.sum(axis=-1)
        rounding = 1e-13 * np.abs(terms).max(axis=(0, 2))
        assert (np.ptp(rest, axis=0) <= 1e-9 + rounding).all(), prior


def mass_between(prior, arm, ends):
    """Return the integral of an arm's density, in pieces that no peak hides in."""

    def density(mean):
        return np.exp(prior.arm_log_density(np.full(NUM_ARMS, mean))[arm])

    cuts = np.unique([*ends, *(cut for cut in np.linspace(0, 1, 21) if ends[0] < cut < ends[1])])
    return sum(integrate.quad(density, *piece)[0] for piece in pairwise(cuts))


@pytest.mark.parametrize("prior", OF_OURS.values(), ids=OF_OURS)
def test_densities_integrate_to_one_and_draws_have_them(prior, rng):
    """Mass up to a quantile of the draws, each share within four standard errors."""
    draws, shares = prior.sample(rng, (NUM_DRAWS, NUM_ARMS)), np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    for arm, (low, high) in enumerate(prior.arm_support(NUM_ARMS)):
        assert mass_between(prior, arm, (low, high)) == pytest.approx(1, abs=1e-6)
        edges = np.quantile(draws[:, arm], shares)
        found = [mass_between(prior, arm, (low, edge)) for edge in edges]
        tolerance = 4 * np.sqrt(shares * (1 - shares) / NUM_DRAWS) + 1e-6
        assert (np.abs(found - shares) < tolerance).all()


def test_shared_mixtures_have_the_density_of_their_distributions_and_one_distribution_a_draw(rng):
    levels = HierarchicalBeta([2.0, 300.0], [8.0, 30.0], [0.9, 0.1])
    assert HierarchicalBeta(*np.array([[2.0, 300.0], [8.0, 30.0]]), np.array([0.9, 0.1])) == levels
    mixture = SharedMixture([Beta(2.0, 8.0), Beta(300.0, 30.0)], [0.9, 0.1])
    for prior in (levels, mixture):
        draws = prior.sample(rng, (NUM_DRAWS, 3))
        each = [stats.beta(2, 8).logpdf(draws).sum(1), stats.beta(300, 30).logpdf(draws).sum(1)]
        expected = np.logaddexp(each[0] + np.log(0.9), each[1] + np.log(0.1))
        np.testing.assert_allclose(prior.log_density(draws), expected)
        is_high = draws > 0.75  # as one in ten thousand of the low ones is, and none of the others
        assert is_high.any() and (is_high.all(axis=1) | ~is_high.any(axis=1)).mean() > 0.999
        assert abs(is_high.mean() - 0.1) < 4 * np.sqrt(0.1 * 0.9 / NUM_DRAWS)


def test_arms_are_independent_in_draws_and_in_the_density(rng):
    for prior in ARMWISE:
        draws = prior.sample(rng, (NUM_DRAWS, NUM_ARMS))
        correlations = np.corrcoef(stats.rankdata(draws, axis=0).T)[np.triu_indices(NUM_ARMS, 1)]
        assert (np.abs(correlations) <= 4 / np.sqrt(NUM_DRAWS)).all(), prior
        means = draws[:20].reshape(4, 5, NUM_ARMS)
        total = prior.arm_log_density(means).sum(axis=-1)
        np.testing.assert_allclose(prior.log_density(means), total, 1e-15, err_msg=repr(prior))


def test_support_encloses_every_arm_and_outside_the_density_is_zero(rng):
    for prior in ALL:
        inside = prior.sample(rng, (1000, NUM_ARMS))
        assert np.isfinite(prior.log_density(inside)).all(), prior
        limits = BanditProblem(gaussian_rewards(prior), prior, NUM_ARMS).arm_support()
        assert prior.support == (limits[:, 0].min(), limits[:, 1].max()), prior
        for arm, side in np.argwhere(np.isfinite(limits)):
            outside = inside[0].copy()
            outside[arm] = np.nextafter(limits[arm, side], (-np.inf, np.inf)[side])
            assert prior.log_density(outside) == -np.inf, prior


def test_draws_keep_inside_when_nearly_all_mass_is_at_the_ends(rng):
    at_ends = Gamma(1e-3, 1.0), InverseGamma(1e-3, 1.0), Beta(1e-3, 1e-3), Beta(1e9, 1e-9)
    for prior in (*at_ends, Gamma(1e12, 1)):
        (low, high), draws = prior.support, prior.sample(rng, (1000, 2))
        assert ((draws > low) & (draws < high)).all(), prior
        if draws.max() < 1e150:  # worlds refuse means of which rewards would overflow
            env = make_env(BanditProblem(gaussian_rewards(prior), prior, 2), 500)
            means = env.reset(seed=0)[1]["means"]
            assert ((means > low) & (means < high)).all(), prior


def test_draws_have_the_shape_asked_for_and_depend_on_the_generator_alone():
    for prior, lanes in product(OF_EACH_KIND, [(), (0,), (1,), (4,), (3, 0), (2, 4)]):
        shape = (*lanes, NUM_ARMS)
        draws = prior.sample(np.random.default_rng(7), shape)
        assert (draws.shape, draws.dtype) == (shape, np.float64), prior
        assert prior.log_density(draws).shape == shape[:-1], prior
        prior.sample(np.random.default_rng(8), (5, NUM_ARMS))
        again = prior.sample(np.random.default_rng(7), shape)
        np.testing.assert_array_equal(again, draws, repr(prior))


def test_it_is_a_prior_that_cannot_be_changed_and_pickles_before_and_after_use(rng):
    for prior in OF_EACH_KIND:
        name, before = next(iter(vars(prior))), pickle.dumps(prior)
        with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
            setattr(prior, name, 1.0)
        prior.log_density(prior.sample(rng, (2, NUM_ARMS)))
        assert pickle.dumps(prior) == before and isinstance(prior, Prior), prior
        assert pickle.loads(before) == prior


def test_it_is_made_again_of_what_it_says_of_itself_as_json():
    for prior in OF_EACH_KIND:
        written = json.loads(json.dumps(prior.to_dict()))
        made = prior_from_dict(written)
        assert made == prior == make_prior(written) and made.to_dict() == written
        assert hash(made) == hash(prior), prior
        problem = BanditProblem(gaussian_rewards(prior), prior, NUM_ARMS)
        assert problem_from_dict(json.loads(json.dumps(problem.to_dict()))) == problem


def test_what_is_listed_of_a_prior_are_its_parameters():
    assert NAMED.keys() == PRIORS.keys()
    for name, settings in NAMED.items():
        assert settings.keys() - {"name"} <= inspect.signature(PRIORS[name]).parameters.keys()


def test_zero_is_refused_where_a_parameter_must_be_above_0():
    for name, parameter in ((name, each) for name, own in POSITIVE.items() for each in own):
        value = [0.0, 0.0] if parameter.endswith("s") else 0.0
        with pytest.raises(ValueError, match=f"{parameter} must .*above 0.* got"):
            prior_from_dict(NAMED[name] | {parameter: value})


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_means_of_lanes_and_of_episodes_are_those_of_the_prior(prior):
    """Ranks among draws of `sample`: the law, and no dependence between lanes and episodes."""
    num_lanes = 1000
    world = make_env(BanditProblem(gaussian_rewards(prior), prior, NUM_ARMS), num_lanes)
    episodes = [world.reset(seed=0)[1]["means"], world.reset()[1]["means"]]
    fair = prior.sample(np.random.default_rng(0), (num_lanes, NUM_ARMS))
    assert stats.ks_2samp(episodes[0], fair, axis=0).pvalue.min() > 1e-3 / 6
    assert stats.ks_2samp(episodes[1], fair, axis=0).pvalue.min() > 1e-3 / 6
    ranks = stats.rankdata(np.concatenate(episodes, axis=1), axis=0)
    for other in (np.roll(ranks[:, :NUM_ARMS], 1, axis=0), ranks[:, NUM_ARMS:]):
        between = np.corrcoef(ranks[:, :NUM_ARMS], other, rowvar=False)[:NUM_ARMS, NUM_ARMS:]
        assert np.abs(between).max() <= 4 / num_lanes**0.5


def test_means_of_a_lane_are_those_of_a_single_environment_of_its_seed():
    for prior in OF_EACH_KIND:
        problem = BanditProblem(gaussian_rewards(prior), prior, NUM_ARMS)
        world, single = make_env(problem, 3), make_env(problem)
        world.reset(seed=5), world.reset(options={"reset_mask": np.array([True, False, True])})
        found = world.reset()[1]["means"]
        for lane, num_resets in enumerate((2, 1, 2)):
            single.reset(seed=5 + lane)
            expected = [single.reset()[1]["means"] for _ in range(num_resets)][-1]
            assert found[lane].tolist() == expected.tolist(), prior


@pytest.mark.parametrize("prior", [LogitNormal(0.0, 1.0), Flipped(1.0, 2.0)], ids=repr)
def test_means_of_a_prior_of_ones_own_are_drawn_from_the_beginning_of_a_stream(prior):
    env = make_env(BanditProblem(gaussian_rewards(prior), prior, NUM_ARMS))
    env.reset(seed=11)
    expected = prior.sample(lane_stream(11, episode=1, purpose="means"), (NUM_ARMS,))
    assert env.reset()[1]["means"].tolist() == expected.tolist()


@pytest.mark.parametrize(("alpha", "beta"), [(9100.0, 1000.0), (1000.0, 1e9), (0.1, 30.0)])
def test_beta_quantiles_are_where_the_distribution_function_says(alpha, beta):
    levels = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    found = Beta(alpha, beta).quantile(levels)
    np.testing.assert_allclose(special.betainc(alpha, beta, found), levels, rtol=1e-6)


def test_draws_near_an_end_are_not_heaped_on_it():
    for prior in (LogitNormal(-40.0, 1.0), HierarchicalBeta([0.02], [1.0])):
        assert len(np.unique(prior.sample(np.random.default_rng(0), (1000, 1)))) == 1000, prior
