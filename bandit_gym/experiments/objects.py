"""Settings of an experiment in which code and objects stand for names, as a session has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandit_gym.checks import message
from bandit_gym.experiments.catalogue import agent_names
from bandit_gym.experiments.digests import importable_name
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.packed import pack, packed_names, shown
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import ENV_IDS

PLAIN = str | bool | int | float | np.generic | None


def describe_agents(agents: Any) -> list[dict[str, Any]]:
    """Return the agents of an experiment as dicts of plain settings.

    Args:
        agents: label -> agent, or a list of agents: names, classes, functions, or dicts with one of
            these as "agent" and options.

    Raises:
        TypeError: if an agent is anything else, or cannot be sent to workers.
    """
    if isinstance(agents, Mapping):
        found = [_describe_agent(agent) | {"label": label} for label, agent in agents.items()]
    elif isinstance(agents, Sequence) and not isinstance(agents, str):
        found = [_describe_agent(agent) for agent in agents]
    else:
        raise TypeError(message("agents", "be a dict of labels and agents, or a list", agents))
    return found


def describe_environments(env: Any) -> list[dict[str, Any]]:
    """Return the environments of an experiment as dicts of plain settings.

    Args:
        env: an id, a `BanditProblem`, a dict with either as "env" and options, or a list of these.
    """
    is_list = isinstance(env, Sequence) and not isinstance(env, str)
    return [_describe_environment(each) for each in (env if is_list else [env])]


def own_names(experiment: Experiment) -> list[str]:
    """Return what people call the code and the objects of an experiment without importable name."""
    entries = (*experiment.environments, *experiment.agents)
    names = [name for entry in entries for name in packed_names([entry.target, entry.options])]
    return [shown(name) for name in dict.fromkeys(names)]


def _describe_agent(agent: Any) -> dict[str, Any]:
    settings = dict(agent) if isinstance(agent, Mapping) else {"agent": agent}
    code = settings.pop("agent", None)
    if not isinstance(code, str) and not callable(code):
        condition = "be a name, a class, a function, or a dict with one of these as 'agent'"
        raise TypeError(message("agent", condition, agent))
    return {"agent": code if isinstance(code, str) else _name_code(code), **_plain(settings)}


def _name_code(code: Any) -> str:
    """Return a target of a class or a function, by which any process finds it."""
    ours = f"agents:{getattr(code, '__name__', '')}"
    module = str(getattr(code, "__module__", ""))
    if module.partition(".")[0] == "agents" and ours in agent_names().values():
        return ours  # as its short name has it, so that it draws the same numbers
    return importable_name(code) or pack(code)


def _describe_environment(env: Any) -> dict[str, Any]:
    settings = dict(env) if isinstance(env, Mapping) else {"env": env}
    world = settings.pop("env", None)
    if not isinstance(world, str | BanditProblem):
        condition = "be an id, a BanditProblem, or a dict with one of these as 'env'"
        raise TypeError(message("env", condition, env))
    if isinstance(world, BanditProblem):
        world, told = _name_problem(world)
        settings |= told
    return {"env": world, **_plain(settings)}


def _name_problem(problem: BanditProblem) -> tuple[str, dict[str, Any]]:
    """Return the id of a problem with a built-in likelihood, and options; else a packed name."""
    likelihood = problem.likelihood
    env_id = f"{type(likelihood).__name__}Bandit-v0"
    if type(likelihood) in LIKELIHOODS.values() and env_id in ENV_IDS:
        return env_id, {"num_arms": problem.num_arms, "prior": problem.prior, **vars(likelihood)}
    return pack(problem), {}


def _plain(value: Any) -> Any:
    """Return options in which objects are the dicts that describe them, or stand for them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, PLAIN):
        return value
    return _described(value) or {"name": pack(value)}


def _described(value: Any) -> dict[str, Any] | None:
    """Return the dict of a prior that has a name; None of anything else."""
    try:
        settings: dict[str, Any] = value.to_dict()
        return settings if prior_from_dict(settings) == value else None
    except (AttributeError, TypeError, ValueError):
        return None
