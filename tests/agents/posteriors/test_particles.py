"""When particles are renewed, and how a reward that leaves few of them is taken in."""

import numpy as np
import pytest

from agents.posteriors.particles import ParticlePosterior
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem


def start(problem, num_particles, **options):
    posterior = ParticlePosterior(problem, [num_particles], resampling="systematic", **options)
    posterior.restart(np.random.default_rng(5), np.array([True]))
    return posterior


def test_a_population_is_renewed_once_its_effective_size_is_below_the_threshold():
    problem, rng = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 2), np.random.default_rng(0)
    posterior = start(problem, 200, ess_threshold=0.5)
    draws = problem.prior.sample(np.random.default_rng(5), (1, 200, 2))[0, :, 0]
    found, expected = [], []
    for pulls in range(1, 4):
        posterior.follow(rng, np.array([[pulls, 0]]), np.array([[float(pulls), 0.0]]))
        found.append(posterior.effective_sample_size()[0])
        expected.append((draws**pulls).sum() ** 2 / (draws ** (2 * pulls)).sum())
    assert expected[0] > expected[1] > 100 > expected[2] > 20
    assert found == pytest.approx([*expected[:2], 200])


def test_a_reward_that_leaves_hardly_a_particle_is_taken_in_by_stages():
    """The mean is within 4 errors of 100 draws, of the 500 that are dependent; std to a fifth."""
    problem, rng = BanditProblem(Gaussian(), Normal(0.0, 1e4), 2), np.random.default_rng(0)
    posterior = start(problem, 500, num_moves=4)
    posterior.follow(rng, np.array([[1, 0]]), np.array([[300.0, 0.0]]))
    assert posterior.mean()[0, 0] == pytest.approx(300.0, abs=4 / np.sqrt(100))
    assert posterior.std()[0, 0] == pytest.approx(1.0, rel=0.2)


def test_data_of_many_independent_arms_that_come_at_once_are_taken_in_by_stages():
    problem, rng = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 16), np.random.default_rng(0)
    posterior, counts = start(problem, 100, num_moves=1), np.full((1, 16), 500)
    posterior.follow(rng, counts, counts * 0.5)
    assert not posterior.lineage.is_capped.any()
    assert (posterior.effective_sample_size() >= 50).all()
