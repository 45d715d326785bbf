"""The public names that the contracts use, spelled as they are today.

A name that is about to change stands here once, so that a rename edits this file and no contract.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox

import bandit_gym
from agents import make_agent
from agents.base.agent import Agent
from bandit_gym.envs.intervals import likelihood_interval as likelihood_interval
from bandit_gym.experiments import Experiment, run_experiment
from bandit_gym.likelihoods import Likelihood
from bandit_gym.likelihoods.lai_robbins import lai_robbins_slope as lai_robbins_slope
from bandit_gym.numerics.threads import limited_to as limited_to
from bandit_gym.priors import CAPABILITIES, Prior, TruncatedNormal
from bandit_gym.priors.base import offers
from bandit_gym.priors.consistency import find_drift as find_drift
from bandit_gym.problem import BanditProblem
from bandit_gym.results import Results, load_results, summarise
from bandit_gym.rollout import BanditAgent, Environment, Rollout, Step, play

OBSERVATIONS = ("constant", "counts", "history")
"""What environments may show to agents."""

AGENTS_CLOCK = "bandit_gym.rollout.perf_counter"
"""What tells the time that agents take."""

REGRET_CHART = "pseudo-regret"
"""What loggers call the regret summed over time."""

MISSPELT = "num_arm"
"""A keyword of `make`, of which an error names this much."""

PAPERS_SMC = "smc"
"""The paper's SMC: particles that are weighed and never resampled."""

MOVED_SMC = "smc", {"resampling": "systematic", "move": "random-walk"}
"""Name and options of the SMC whose particles are resampled and moved."""


def problem_of(env) -> BanditProblem:
    """Return the problem of an environment, single or vector, wrapped or not."""
    return env.unwrapped.problem


def lane_stream(seed: int, *, episode: int, purpose: str) -> Generator:
    """Return the numbers of which a lane makes the "means" or the "noise" of an episode."""
    number = {"means": 0, "noise": 1}[purpose]
    return Generator(Philox(key=seed, counter=[0, 0, episode, number]))


def make_world(problem: BanditProblem, num_envs: int | None = None, **options):
    """Make an environment of a problem; given `num_envs`, a vector one."""
    if num_envs is None:
        return bandit_gym.make(problem, **options)
    return bandit_gym.make_vec(problem, num_envs, **options)


def check_prior(prior: Prior, likelihood: Likelihood, num_arms: int) -> None:
    """Raise or warn where a prior of a user's own is wrong."""
    BanditProblem(likelihood, prior, num_arms)


def check_likelihood(likelihood: Likelihood) -> None:
    """Raise where a likelihood of a user's own is wrong."""
    BanditProblem(likelihood, TruncatedNormal(0.5, 0.1), 3)


def offered_by(prior: Prior) -> set[str]:
    """Return what a prior offers beside `sample`, by the names of the methods or rules."""
    return {name for name in CAPABILITIES if offers(prior, name)}


def agent_for(env, name: str, **options) -> Agent:
    """Make an agent for an environment."""
    return make_agent(name, problem_of(env), **options)


def lane_counts(agent: Agent) -> np.ndarray:
    """Return the (N, K) pulls of an agent's arms, N = 1 for a single run."""
    return agent.counts


def lane_sums(agent: Agent) -> np.ndarray:
    """Return the (N, K) total rewards of an agent's arms, N = 1 for a single run."""
    return agent.sums


def regret_of(found: Rollout) -> np.ndarray:
    """Return the (N, T) regret of each pull."""
    return found.pseudo_regret


def steps_of(agent: BanditAgent, env: Environment) -> Iterator[Step]:
    """Play an episode and yield what happened in each step."""
    return play(agent, env, env_seed=0, agent_seed=np.random.SeedSequence(0))


def run_and_load(experiment: Experiment, folder: Path, **options) -> Results:
    """Run an experiment in a folder and return its results."""
    run_experiment(experiment, folder, **options)
    return load_results(folder)


def curves_of(results: Results, agent: str) -> np.ndarray:
    """Return the (N, T) regret of an agent, by its label, summed over time."""
    (found,) = (found for found in results.runs if found.run.agent.label == agent)
    return found.curves("pseudo_regret")


def summary_of(results: Results, agent: str) -> Any:
    """Return an agent's row of the table of results, by its label."""
    (row,) = (row for row in summarise(results).itertuples() if row.agent == agent)
    return row
