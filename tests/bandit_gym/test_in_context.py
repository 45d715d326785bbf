"""Data sets for in-context learners: what is played, and labels given the history of each pull."""

import numpy as np
import pandas as pd
import pytest
from exact_values import exact_worths, plain

import bandit_gym as bg
from agents import ExactThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.wrappers import BinaryReward, EndsAtHorizon

HORIZON, NUM_ARMS = 5, 3
UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), NUM_ARMS)
PROBLEMS = (
    UNIFORM,
    BanditProblem(Bernoulli(), Beta([1.0, 4.0, 1.0], [2.0, 4.0, 2.0]), NUM_ARMS),
    BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), NUM_ARMS),
    BanditProblem(Gaussian(0.5), Normal(0.0, 1.0), NUM_ARMS),
)
WORTHS = {
    UNIFORM: exact_worths(plain(*[(1, 1)] * NUM_ARMS), HORIZON),
    PROBLEMS[1]: exact_worths(plain((1, 2), (4, 4), (1, 2)), HORIZON),
}


def make_lanes(problem, num_envs=7):
    return bg.make_vec(problem, num_envs, max_episode_steps=HORIZON)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_labels_are_what_exact_rules_do_given_what_came_before(problem):
    """The oracle errs by 1e-6 at most; the plain recursion does not."""
    data = bg.in_context_dataset(make_lanes(problem), "exact", 10, seed=1)
    assert (data.bayes_optimal_actions is None) == (problem.likelihood != Bernoulli())
    assert (data.optimal_actions == data.means.argmax(axis=1)).all() and len(data.means) == 10
    for episode, step in np.ndindex(data.actions.shape):
        arms, paid = data.actions[episode, :step], data.rewards[episode, :step]
        counts, sums = np.bincount(arms, minlength=NUM_ARMS), np.bincount(arms, paid, NUM_ARMS)
        expected = action_probabilities(problem, counts, sums)
        assert data.thompson_probabilities[episode, step] == pytest.approx(expected, abs=2e-6)
        if problem in WORTHS:
            values = WORTHS[problem](tuple(zip(counts.tolist(), map(int, sums), strict=True)))
            is_best = [value == max(values) for value in values]
            assert data.bayes_optimal_actions[episode, step].tolist() == is_best


@pytest.mark.parametrize("policy", ["exact", ExactThompson, "uniform", "optimal"])
def test_policies_play_as_they_do_elsewhere(policy):
    """Thompson pulls its favourite with the labels' probability, to 4 errors of .5 / sqrt(n).

    The optimum takes the first of its arms.
    """
    data = bg.in_context_dataset(EndsAtHorizon(make_lanes(UNIFORM, 400)), policy, 1000, seed=2)
    is_favourite = data.actions == data.thompson_probabilities.argmax(axis=2)
    expected = 1 / 3 if policy == "uniform" else data.thompson_probabilities.max(axis=2)
    if policy == "optimal":
        assert (data.actions == data.bayes_optimal_actions.argmax(axis=2)).all()
    else:
        assert np.abs((is_favourite - expected).mean(axis=0)).max() < 4 * 0.5 / 1000**0.5
    again = bg.in_context_dataset(make_lanes(UNIFORM, 400), policy, 1000, seed=2)
    assert np.array_equal(again.rewards, data.rewards)


def test_a_single_environment_is_played_one_episode_after_the_other():
    env = BinaryReward(bg.make("BernoulliBandit-v0", num_arms=NUM_ARMS))
    data = bg.in_context_dataset(env, "exact", 3, seed=0, horizon=4)
    assert data.actions.shape == (3, 4) and len(np.unique(data.means)) == 9


@pytest.mark.parametrize("problem", [UNIFORM, PROBLEMS[-1]], ids=repr)
def test_files_hold_what_was_made(problem, tmp_path):
    data = bg.in_context_dataset(make_lanes(problem), "exact", 2, seed=0)
    data.save(tmp_path / "data.npz")
    data.save(tmp_path / "data.parquet")
    arrays, table = np.load(tmp_path / "data.npz"), pd.read_parquet(tmp_path / "data.parquet")
    kept = {name: value for name, value in vars(data).items() if value is not None}
    assert {*arrays} == {*kept} == {*table} - {"episode", "step"}
    for name, value in kept.items():
        assert np.array_equal(arrays[name], value)
        is_of_episode = name in ("means", "optimal_actions")
        rows = np.stack(table[name])
        value = np.repeat(value, HORIZON if is_of_episode else 1, axis=0)
        assert np.array_equal(rows, value.reshape(rows.shape))
