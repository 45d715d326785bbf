"""A prior of a user's own, in six lines: every agent that takes any prior takes it."""

import gymnasium
import numpy as np
import pytest
from families import EXACT_AGENTS

import bandit_gym  # noqa: F401  (registers the environments)
from agents import AGENTS, make_agent
from agents.oracle import action_probabilities
from agents.posteriors.conjugate import TABLE_1
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout


class Triangular:
    def sample(self, rng, shape):
        return rng.triangular(0.0, 0.3, 1.0, shape)

    def log_density(self, means):
        return np.log(np.minimum(means / 0.3, (1 - means) / 0.7)).sum(axis=-1)


class TriangularByArm(Triangular):
    """Two lines more, for agents and oracles that work arm by arm."""

    def arm_log_density(self, means):
        return np.log(np.minimum(means / 0.3, (1 - means) / 0.7))

    def arm_support(self, num_arms):
        return np.tile([0.0, 1.0], (num_arms, 1))


COUNTS, SUMS = np.array([8, 5, 3, 0]), np.array([4.0, 2.0, 2.0, 0.0])
PROBLEM = BanditProblem(Bernoulli(), Triangular(), 4)
NEAR_EXACT = {
    "racing, reference": ("racing", {"proposal": "reference", "effective_samples": 200}),
    "racing, matched": ("racing", {"stopping": 200}),
    "smc, never": ("smc", {"num_particles": 2000}),
    "smc, moves": ("smc", {"resampling": "systematic", "move": "random-walk"}),
}


@pytest.mark.parametrize("setting", NEAR_EXACT)
def test_agent_follows_the_oracle_under_a_prior_in_six_lines(setting):
    name, options = NEAR_EXACT[setting]
    agent, num_lanes = make_agent(name, PROBLEM, **options), 4000 if name == "racing" else 400
    agent.reset(num_lanes, seed=0)
    agent.warm_start(COUNTS, SUMS)
    shares = np.bincount(agent.act(), minlength=4) / num_lanes
    problem = BanditProblem(Bernoulli(), TriangularByArm(), 4)
    expected = action_probabilities(problem, COUNTS, SUMS)
    bias = 1 / agent.diagnostics()["effective_sample_size"].mean()  # of m weighted draws
    assert (np.abs(shares - expected) <= 4 * np.sqrt(expected / num_lanes) + bias).all()


@pytest.mark.filterwarnings("error:invalid value")
def test_smc_never_asks_for_the_density_of_means_that_cannot_be():
    agent = make_agent("smc", PROBLEM, resampling="systematic", move="random-walk")
    agent.reset(50, seed=0)
    agent.warm_start(COUNTS, SUMS)
    assert agent.act().shape == (50,)


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in EXACT_AGENTS])
def test_agent_plays_in_a_world_with_a_prior_in_six_lines(name):
    env = gymnasium.make_vec("BernoulliBandit-v0", num_envs=3, num_arms=4, prior=Triangular())
    agent = make_agent(name, env.unwrapped.problem)
    rollout(agent, env, seed=0, horizon=20)
    assert (agent.counts.sum(axis=1) == 20).all()


def test_exact_thompson_takes_it_with_the_densities_of_its_arms():
    problem = BanditProblem(Bernoulli(), TriangularByArm(), 4)
    assert make_agent("exact", problem).method == "grid"


def test_exact_thompson_refuses_it_without_and_names_the_agents_that_do_not():
    with pytest.raises(ValueError, match="RacingThompson and SMCThompson take any prior"):
        make_agent("exact", PROBLEM)


@pytest.mark.parametrize(
    ("likelihood", "points"),
    [
        (Bernoulli(), [1e-9, 0.5, 1 - 1e-9]),
        (Exponential(), [1e-3, 1.0, 1e9]),
        (Gaussian(), [-1e9, 0.0, 1e9]),
        (Poisson(), [1e-9, 1.0, 1e9]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_proposal_of_ones_own_covers_every_mean_a_likelihood_can_have(likelihood, points):
    """So that no proposal `RacingThompson` accepts can lack the prior's support."""
    proposal = TABLE_1[type(likelihood)].prior(2.0, 1.0)
    assert np.isfinite(proposal.log_density(np.array(points)[:, None])).all()


class SeldomPaying:
    """Arm 1 pays one time in five at most, says the prior."""

    def sample(self, rng, shape):
        return rng.random(shape) * np.where(np.arange(shape[-1]) == 1, 0.2, 1.0)

    def log_density(self, means):
        return np.where(means[..., 1] <= 0.2, 0.0, -np.inf)


def test_racing_says_that_data_are_impossible_under_the_prior():
    agent = make_agent(
        "racing_paper", BanditProblem(Bernoulli(), SeldomPaying(), 3), max_samples=200
    )
    agent.reset(2, seed=0)
    agent.observe([1, 0], [0.0, 1.0])
    agent.warm_start([[0, 0, 0], [0, 50, 0]], [[0, 0, 0], [0, 50, 0]])
    told = "at all 200 samples of the race in lane 1, whose arm 1 has 50 rewards of total 50 that"
    with pytest.raises(ValueError, match=told):
        agent.act()
    agent.reset_lanes(np.array([False, True]))
    assert agent.act().shape == (2,)
