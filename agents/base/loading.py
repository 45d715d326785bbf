"""Agents from files, as `Agent.save` has written them. Nothing in a file is run."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.base.agent import Agent
from agents.base.saved import raise_file_errors, read_agent_file, restore_problem, set_state
from bandit_gym.checks import check_keys, check_path, message
from bandit_gym.problem import BanditProblem, ContextualProblem, check_problem


def load(
    path: str | Path,
    problem: BanditProblem | None = None,
    *,
    agent_class: type[Agent] | None = None,
    posterior: Any = None,
) -> Agent:
    """Return a saved agent, which goes on bit for bit as the one that was saved.

    Its class is one of `agents`, or is given, and so is its posterior; a file cannot name any other
    code.

    Args:
        path: of the file.
        problem: what the agent was given. It must be given if its prior or its likelihood has no
            name from which it can be made again, and may be left out otherwise.
        agent_class: the agent's class, if it is one of your own.
        posterior: the agent's argument, if it was a posterior of your own.

    Raises:
        OSError: if there is no such file.
        TypeError: if an argument is of the wrong kind.
        ValueError: if the file is damaged or another one, or what must be given is not, or is not
            what the agent was saved with.
    """
    path = check_path("path", path)
    content = read_agent_file(path)
    kind = _find_class(path, content, agent_class)
    problem = _find_problem(path, content, problem)
    options = _find_options(path, content, posterior)
    with raise_file_errors(path):
        known = [*inspect.signature(kind).parameters][1:]
        check_keys("options", content["options"], optional=known)
        agent = kind(problem, **options)
        agent.reset(content["num_envs"], seed=0)
        set_state(agent, content["state"])
        shape, found = (agent.num_lanes, agent.problem.num_arms), agent.lane_counts.shape
        is_wrong = found != shape or agent.lane_sums.shape != shape
        if is_wrong and not isinstance(agent.problem, ContextualProblem):  # rows check themselves
            raise ValueError(f"counts and sums must have shape {shape}")
        agent.rng.bit_generator.state = content["generator"]
    return agent


def _find_options(path: Path, content: dict[str, Any], posterior: Any) -> dict[str, Any]:
    options, name = content["options"], content["posterior"]
    if (name is None) != (posterior is None):
        state = "be left out" if name is None else "be given"
        condition = f"{state} for the agent in {str(path)!r}, whose own is {name}"
        raise ValueError(message("posterior", condition, posterior))
    return options if name is None else options | {"posterior": posterior}


def _find_class(
    path: Path, content: dict[str, Any], agent_class: type[Agent] | None
) -> type[Agent]:
    is_agent = isinstance(agent_class, type) and issubclass(agent_class, Agent)
    if not (agent_class is None or is_agent):
        raise TypeError(message("agent_class", "be a subclass of agents.Agent", agent_class))
    with raise_file_errors(path):
        module, _, name = content["class"].rpartition(":")
    ours = getattr(import_module(module), name, None) if module == "agents" else None
    found = agent_class or ours
    if found is None or found.__qualname__ != name or ours not in (None, found):
        condition = f"be {name} in {module}, the class of the agent in {str(path)!r}"
        raise ValueError(message("agent_class", condition, agent_class))
    return found


def _find_problem(
    path: Path, content: dict[str, Any], given: BanditProblem | None
) -> BanditProblem:
    settings = content["problem"]
    if settings is None:
        if given is None:
            condition = f"be given for the agent in {str(path)!r}, as its problem has no name"
            prior = content["prior"]
            remedy = f"its prior is {prior}: agents.load(path, problem=BanditProblem(...))"
            raise ValueError(message("problem", condition, given, remedy))
        return check_problem(given)
    with raise_file_errors(path):
        stored = restore_problem(settings)
    if given is not None and check_problem(given) != stored:
        condition = f"be the one that the agent in {str(path)!r} was given, or be left out"
        raise ValueError(message("problem", condition, given))
    return stored
