"""Agents write the call that builds another one like them; so do problems and priors."""

import os

import numpy as np
import pytest
from families import ALL_AGENTS, ALL_LIKELIHOODS, ALL_PRIORS, CONJUGATE_PROBLEMS, QUICKER

import agents
from agents import RacingThompson, SMCThompson, make_agent
from agents.base.saved import describe_problem
from agents.racing import stopping
from bandit_gym import likelihoods, priors, problem
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, mixtures
from bandit_gym.problem import BanditProblem

NAMES = {
    name: getattr(module, name)
    for module in (agents, likelihoods, priors, mixtures, problem, stopping)
    for name in dir(module)
    if name[0].isupper()
}
BERNOULLI = CONJUGATE_PROBLEMS[0]
OTHERS = (
    mixtures.Mixture((Beta(2.0, 3.0), priors.TruncatedNormal(0.4, 0.2)), (1.0, 3.0)),
    mixtures.LogitNormal(0.0, 1.0),
    mixtures.HierarchicalBeta([1.0, 2.0], [3.0, 4.0]),
    Beta([1.0, np.float64(2.0)], 3),
    BERNOULLI,
)
OPTIONS = QUICKER | {
    "racing": {"stopping": np.int64(30)},
    "smc_paper": {"num_particles": np.arange(5, 8)},
    "epsilon_greedy": {"epsilon": np.float64(0.3), "estimate": "posterior"},
}


def test_repr_of_a_prior_a_likelihood_or_a_problem_builds_an_equal_one():
    values = [*ALL_PRIORS, *ALL_LIKELIHOODS, *OTHERS]
    assert [eval(repr(value), NAMES) for value in values] == values


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_repr_of_an_agent_builds_one_that_plays_alike(name):
    agent = make_agent(name, BERNOULLI, **OPTIONS.get(name, {}))
    twin = eval(repr(agent), NAMES)
    assert type(twin) is type(agent) and repr(twin) == repr(agent)
    assert twin.options().keys() == agent.options().keys() >= OPTIONS.get(name, {}).keys()
    for each in (agent, twin):
        each.reset(20, seed=0)
    assert agent.act().tolist() == twin.act().tolist()


def test_repr_leaves_defaults_out():
    assert repr(RacingThompson(problem=BERNOULLI)) == f"RacingThompson({BERNOULLI!r})"
    agent = SMCThompson(BERNOULLI, num_particles=np.array([3, 4]), resampling="never")
    assert repr(agent).endswith("num_arms=4), num_particles=[3, 4], resampling='never')")


def test_problem_is_described_if_an_equal_one_can_be_made_of_it():
    assert describe_problem(BERNOULLI) == BERNOULLI.to_dict()

    class Named(Beta):
        """Has the name of its ancestor, and is another."""

    assert describe_problem(BanditProblem(Bernoulli(), Named(1.0, 1.0), 3)) is None


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    """As every device does: /dev/null was once a file afterwards."""
    pipe, world = tmp_path / "pipe", BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = agents.ExactThompson(world)
    agent.reset(seed=0)
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        agent.save(pipe)
        assert reader.read().startswith(b"PK")
    assert pipe.is_fifo()
