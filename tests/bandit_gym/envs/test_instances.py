"""What a lane draws is told by its seed and its episode, in words of NumPy alone."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_PRIORS, CONJUGATE_PROBLEMS
from numpy.random import Generator, Philox
from scipy import stats

from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.numerics.streams import MEANS, NOISE
from bandit_gym.priors import Beta, IndependentPrior
from bandit_gym.priors.mixtures import LogitNormal
from bandit_gym.problem import BanditProblem

NUM_ARMS, SEED = 3, 11
OWN_PRIORS = (*(prior for prior in ALL_PRIORS if not isinstance(prior, IndependentPrior)),)
INDEPENDENT_PRIORS = (
    *(prior for prior in ALL_PRIORS if isinstance(prior, IndependentPrior)),
    Beta(1.0, 1.0),
    Beta([0.5, 1.0, 300.0], [0.2, 1.0, 100.0]),
)


class Halved(Beta):
    """A law of a user's own, who has found it handy to begin with ours."""

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
        return super().sample(rng, shape) / 2


def stream(episode: int, purpose: int, seed: int = SEED) -> Generator:
    return Generator(Philox(key=seed, counter=[0, 0, episode, purpose]))


def problem_of(prior: Any) -> BanditProblem:
    return BanditProblem(Gaussian(), prior, NUM_ARMS)


def first_kept(prior: IndependentPrior, rng: Generator) -> list[float]:
    """Return each arm's first proposal that is kept, of attempts at all arms one after another."""
    numbers = rng.random((50, NUM_ARMS, prior.num_uniforms))
    tried = [prior.propose(row.T, np.arange(NUM_ARMS)) for row in numbers]
    kept = np.array([is_kept for _, is_kept in tried]).argmax(axis=0)
    return [tried[attempt][0][arm] for arm, attempt in enumerate(kept)]


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_means_are_the_first_proposals_that_are_kept(prior: IndependentPrior) -> None:
    env = BanditEnv(problem_of(prior))
    found = [env.reset(seed=SEED)[1]["means"], *(env.reset()[1]["means"] for _ in range(20))]
    expected = [first_kept(prior, stream(episode, MEANS)) for episode in range(21)]
    assert np.array(found).tolist() == expected


@pytest.mark.filterwarnings("ignore:prior.sample and prior.log_density")
@pytest.mark.parametrize("prior", [*OWN_PRIORS, LogitNormal(0.0, 1.0), Halved(2.0, 2.0)], ids=repr)
def test_means_of_other_priors_are_samples_from_the_beginning_of_a_stream(prior: Any) -> None:
    single, venv = BanditEnv(problem_of(prior)), BanditVectorEnv(2, problem_of(prior))
    single.reset(seed=SEED), venv.reset(seed=SEED - 1)
    expected = prior.sample(stream(1, MEANS), (NUM_ARMS,)).tolist()
    assert single.reset()[1]["means"].tolist() == expected
    assert venv.reset()[1]["means"][1].tolist() == expected


@pytest.mark.parametrize("problem", CONJUGATE_PROBLEMS, ids=lambda problem: problem.likelihood.name)
def test_rewards_are_quantiles_at_the_numbers_of_a_stream(problem: BanditProblem) -> None:
    env = BanditEnv(problem)
    env.reset(seed=SEED), env.step(0)
    means = env.reset()[1]["means"]
    rewards = [env.step(1)[1] for _ in range(10)]
    assert rewards == problem.likelihood.sample(means[1], stream(1, NOISE).random(10)).tolist()


def test_noise_does_not_depend_on_what_the_means_are_drawn_from() -> None:
    played = []
    for options in ({}, {"prior": Beta(2.0, 0.5)}, {"means": [0.5] * 10}):
        env = gym.make("BernoulliBandit-v0", **options)
        means = env.reset(seed=3)[1]["means"]
        played.append(env.step(0)[1] == (stream(0, NOISE, 3).random() >= 1 - means[0]))
    assert all(played)


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_means_of_lanes_and_of_episodes_are_those_of_the_prior(prior: IndependentPrior) -> None:
    """Ranks among draws of `sample`: the law, and no dependence between lanes, arms, episodes."""
    num_lanes = 5000
    venv = BanditVectorEnv(num_lanes, problem_of(prior))
    drawn = np.concatenate([venv.reset(seed=0)[1]["means"], venv.reset()[1]["means"]], axis=1)
    fair = prior.sample(np.random.default_rng(0), (num_lanes, NUM_ARMS))
    for column in range(2 * NUM_ARMS):
        assert stats.ks_2samp(drawn[:, column], fair[:, column % NUM_ARMS]).pvalue > 1e-3
    columns = [*drawn.T, *np.roll(drawn, 1, axis=0).T]
    correlations = np.corrcoef(stats.rankdata(columns, axis=1))[np.triu_indices(len(columns), 1)]
    assert np.abs(correlations).max() <= 4 / num_lanes**0.5


def test_user_prior_is_drawn_from_as_often_as_there_are_lanes_to_reset() -> None:
    venv = BanditVectorEnv(3, BanditProblem(Bernoulli(), LogitNormal(0.0, 1.0), 2))
    first = venv.reset(seed=0)[1]["means"]
    after = venv.reset(options={"reset_mask": np.array([True, False, True])})[1]["means"]
    again = venv.reset()[1]["means"]
    alone = BanditEnv(venv.problem)
    assert first[1].tolist() == alone.reset(seed=1)[1]["means"].tolist()
    assert again[1].tolist() == alone.reset()[1]["means"].tolist()
    assert again[0].tolist() != after[0].tolist()
