"""The public names that the contracts use, spelled as they are today.

A name that is about to change stands here once, so that a rename edits this file and no contract.
"""

from pathlib import Path

import numpy as np

from agents import make_agent
from agents.base.agent import Agent
from bandit_gym.experiments import Experiment, run_experiment
from bandit_gym.problem import BanditProblem
from bandit_gym.results import Results, load_results
from bandit_gym.rollout import Rollout

PAPERS_SMC = "smc"
"""The paper's SMC: particles that are weighed and never resampled."""

MOVED_SMC = "smc", {"resampling": "systematic", "move": "random-walk"}
"""Name and options of the SMC whose particles are resampled and moved."""


def problem_of(env) -> BanditProblem:
    """Return the problem of an environment, single or vector, wrapped or not."""
    return env.unwrapped.problem


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


def run_and_load(experiment: Experiment, folder: Path, **options) -> Results:
    """Run an experiment in a folder and return its results."""
    run_experiment(experiment, folder, **options)
    return load_results(folder)


def started(name: str, problem: BanditProblem, num_envs: int | None, *data, **options) -> Agent:
    """Make an agent of seed 1 and warm it up with counts and sums, if given."""
    agent = make_agent(name, problem, **options)
    agent.reset(num_envs, seed=1)
    if data:
        agent.warm_start(*data)
    return agent
