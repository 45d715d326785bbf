"""A likelihood of one's own is tried when a problem is made, and refused in one sentence."""

import re
from math import inf

import numpy as np
import pytest
from families import ALL_LIKELIHOODS
from geometric import Geometric

from bandit_gym.likelihoods import Gaussian
from bandit_gym.likelihoods.trial import try_likelihood
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem


def geometric_with(**members):
    return type("Own", (Geometric,), members)()


def broken_log_likelihood(change):
    """Return a method: the right value, changed by `change(value, means, counts, sums)`."""

    def log_likelihood(self, means, counts, sums):
        x = np.where(self.contains(means), means, 1.0)
        return change(Geometric().log_likelihood(means, counts, sums), x, counts, sums)

    return {"log_likelihood": log_likelihood}


def in_odds(self, means, counts, sums):
    """Return the log-likelihood of the success probability, mistaken for that of the mean."""
    x = np.clip(means, 1e-9, 1 - 1e-9)
    value = np.log(x) * counts + np.log1p(-x) * sums
    return np.where(self.contains(means), value, -inf)


@pytest.mark.parametrize("likelihood", [*ALL_LIKELIHOODS, Gaussian(1e-3), Geometric()], ids=repr)
def test_trial_accepts_a_right_likelihood(likelihood):
    assert try_likelihood(likelihood) is None


WRONG = {
    "NaN": (
        broken_log_likelihood(lambda value, x, n, s: np.where(np.equal(x, 0.5), np.nan, value)),
        "likelihood.log_likelihood must be finite or -inf at possible means, got nan.",
    ),
    "plus infinity": (
        broken_log_likelihood(lambda value, x, n, s: np.where(np.equal(x, 0.5), inf, value)),
        "likelihood.log_likelihood must be finite or -inf at possible means, got inf.",
    ),
    "shape": (
        broken_log_likelihood(lambda value, x, n, s: value.sum()),
        "likelihood.log_likelihood(arguments of shapes (5,), (), ()) must return numbers of shape "
        "(5,), got shape ().",
    ),
    "error": (
        broken_log_likelihood(lambda value, x, n, s: 1 / 0),
        "must return numbers of shape (5,), got ZeroDivisionError('division by zero').",
    ),
    "counts forgotten": (
        broken_log_likelihood(lambda value, x, n, s: value + np.subtract(n, 1) * np.log1p(x)),
        "likelihood.log_likelihood must be linear in counts and sums, up to a term without the "
        "mean, got",
    ),
    "squared sums": (
        broken_log_likelihood(lambda value, x, n, s: value - np.square(s) * np.log1p(x)),
        "likelihood.log_likelihood must be linear in counts and sums",
    ),
    "another parameter": (
        {"log_likelihood": in_odds},
        "likelihood.log_likelihood must be largest where the mean is the rewards' average, got",
    ),
    "finite outside": (
        broken_log_likelihood(lambda value, x, n, s: np.maximum(value, -1e9)),
        "likelihood.log_likelihood must be -inf at means outside the support, got -1000000000.0.",
    ),
    "impossible rewards": (
        {"sample": lambda self, means, u: Geometric().sample(means, u) - 1},
        "likelihood.sample must draw rewards that is_possible accepts, got -1.0.",
    ),
    "NaN rewards": (
        {"sample": lambda self, means, u: np.multiply(means, u) * np.nan},
        "likelihood.sample must draw rewards that is_possible accepts, got nan.",
    ),
    "falling rewards": (
        {"sample": lambda self, means, u: Geometric().sample(means, 1 - np.maximum(u, 1e-9))},
        "likelihood.sample must not fall as the uniform rises, got",
    ),
    "shape of rewards": (
        {"sample": lambda self, means, u: Geometric().sample(np.max(means), u)},
        "must return numbers of shape (8, 154), got shape (154,).",
    ),
    "NaN is possible": (
        {"is_possible": lambda self, rewards: ~np.less(rewards, 0)},
        "likelihood.is_possible must be False for NaN and infinity, got nan.",
    ),
    "support": (
        {"support": (1.0, 0.0)},
        "likelihood.support must be a pair of numbers that rise, got (1.0, 0.0).",
    ),
    "contains nothing": (
        {"contains": lambda self, means: np.full(np.shape(means), False)},
        "likelihood.contains must be True for means between 0 and inf, got [].",
    ),
}


@pytest.mark.parametrize(("members", "text"), WRONG.values(), ids=WRONG)
def test_problem_refuses_a_wrong_likelihood_in_one_sentence(members, text):
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        BanditProblem(geometric_with(**members), Gamma(2.0, 1.0), 3)
    assert str(caught.value).count("\n") == 0


def test_problem_says_how_to_write_a_likelihood_where_it_got_a_lookalike():
    lookalike = type("Lookalike", (), dict(vars(Geometric)))()
    with pytest.raises(TypeError, match="is a subclass of bandit_gym.likelihoods.Likelihood"):
        BanditProblem(lookalike, Gamma(2.0, 1.0), 3)
