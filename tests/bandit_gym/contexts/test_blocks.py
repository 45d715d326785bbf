"""How features arise: blocks of coefficients, and the deviation of linear predictors."""

import gymnasium as gym
import numpy as np
import pytest
from refusals import check_refusals

from bandit_gym.contexts import CONTEXTS, count_coefficients, disjoint, hierarchical, make_contexts

VISITORS = np.random.default_rng(0).standard_normal((4, 2))


def test_predictors_in_blocks_are_those_of_each_arms_own_coefficients_and_the_shared_ones():
    rng, num_arms = np.random.default_rng(1), 3
    with_intercept = np.column_stack([np.ones(4), VISITORS])
    for intercept, vectors in ((True, with_intercept), (False, VISITORS)):
        shared = rng.standard_normal(vectors.shape[1])
        own = rng.standard_normal((num_arms, vectors.shape[1]))
        features = disjoint(VISITORS, num_arms, intercept)
        np.testing.assert_allclose(features @ own.ravel(), vectors @ own.T)
        theta = np.concatenate([shared, own.ravel()])
        features = hierarchical(VISITORS, num_arms, intercept)
        np.testing.assert_allclose(features @ theta, vectors @ (shared + own).T)
        assert hierarchical(VISITORS[0], num_arms, intercept).tolist() == features[0].tolist()
        assert hierarchical(VISITORS[:0], num_arms, intercept).shape == (0, *features[0].shape)


NO_VISITORS = [
    ([1.0, np.inf], 2, True, ValueError, "x must be finite, got"),
    (["a"], 2, True, TypeError, "x must"),
    (1.0, 2, True, ValueError, "x must have a last axis of features, got 1.0"),
    ([], 2, False, ValueError, "x must have a last axis of features, got"),
    ([1.0], 1, True, ValueError, "num_arms must be an integer of at least 2"),
]


def test_what_is_no_visitor_is_refused():
    for make in (disjoint, hierarchical):
        check_refusals(lambda x, k, intercept, make=make: make(x, k, intercept), NO_VISITORS)


@pytest.mark.parametrize("contexts", CONTEXTS)
def test_linear_predictors_have_the_stated_deviation(contexts):
    """Over 10,000 draws of features and coefficients; squares of predictors have a deviation of
    at most 3 times their mean under these contexts, whose fourth moments are below 10."""
    num_draws, d = 10_000, count_coefficients(contexts, 3, 4)
    for link, deviation in (("logit", 2.0), ("log", 0.5)):
        rng, draw = np.random.default_rng(0), make_contexts(contexts, 3, d, link)
        features, theta = draw([rng] * num_draws, 3, d), rng.standard_normal((num_draws, d, 1))
        gap = np.abs(np.mean(np.square(features @ theta)) / deviation**2 - 1)
        assert gap <= 4 * 3 / num_draws**0.5, link


def constant(rng, num_arms, num_features):
    """Return features that are no numbers."""
    return np.full((num_arms, num_features), np.inf)


ARGUMENTS = [
    ({"contexts": "nomal"}, ValueError, "contexts must be", "normal"),
    ({"contexts": 3}, TypeError, "contexts must be a function, got 3"),
    ({"contexts": constant}, ValueError, "contexts(", ") must return numbers within"),
    ({"prior": {"name": "normal", "mean": [0, 0], "std": 1}}, ValueError, "prior must have 5"),
    ({"likelihood": "gauss"}, ValueError, "likelihood"),
    ({"observation": "counts"}, TypeError, "contextual() got an unexpected", "'observation'"),
]


def test_arguments_of_the_environment_that_are_wrong_are_refused():
    for make in (gym.make, gym.make_vec):
        check_refusals(lambda given, make=make: make("ContextualBandit-v0", **given), ARGUMENTS)
