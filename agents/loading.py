"""Agents from files, as `Agent.save` has written them. Nothing in a file is run."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.base import Agent
from agents.saved.archive import read_archive, telling
from agents.saved.state import is_ours, set_state
from agents.saved.storable import names_code
from bandit_gym.checks import check_integer, check_keys, check_path, check_statistics, message
from bandit_gym.problem import BanditProblem, check_problem, problem_from_dict


def load(
    path: str | Path,
    problem: BanditProblem | None = None,
    *,
    agent_class: type[Agent] | None = None,
) -> Agent:
    """Return a saved agent, which goes on bit for bit as the one that was saved.

    Its class is one of `agents`, or is given; a file cannot name any other code.

    Args:
        path: of the file.
        problem: what the agent was told. It must be given if its prior or its likelihood has no
            name from which it can be made again, and may be left out otherwise.
        agent_class: the agent's class, if it is one of your own.

    Raises:
        OSError: if there is no such file.
        TypeError: if an argument is of the wrong kind.
        ValueError: if the file is damaged or another one, or what must be given is not, or is not
            what the agent was saved with.
    """
    path = check_path("path", path)
    content = read_archive(path)
    kind = _find_class(path, content, agent_class)
    problem = _find_problem(path, content, problem)
    if not is_ours(kind):  # what its own constructor raises is no fault of the file
        return _resume(path, content, kind(problem, **content["options"]))
    with telling(path):
        known = [*inspect.signature(kind).parameters][1:]
        check_keys("options", content["options"], optional=known)
        agent = kind(problem, **content["options"])
    return _resume(path, content, agent)


def _find_class(path: Path, content: dict[str, Any], own: type[Agent] | None) -> type[Agent]:
    if own is not None and not (isinstance(own, type) and issubclass(own, Agent)):
        raise TypeError(message("agent_class", "be a subclass of agents.Agent", own))
    with telling(path):
        module, _, name = content["class"].rpartition(":")
        agents = import_module("agents")
        is_listed = module == "agents" and name in agents.HOMES
    found: type[Agent] | None = getattr(agents, name) if is_listed else own
    if found is None:
        condition = f"be given for the agent in {str(path)!r}, of the class {name} in {module}"
        raise ValueError(message("agent_class", condition, own))
    if own is not None and (own is not found or own.__qualname__ != name):
        condition = f"be {name}, the class of the agent in {str(path)!r}, or be left out"
        raise ValueError(message("agent_class", condition, own))
    return found


def _find_problem(
    path: Path, content: dict[str, Any], given: BanditProblem | None
) -> BanditProblem:
    settings = content["problem"]
    if given is not None:
        check_problem(given)
    if settings is None and given is None:
        prior = str(content["prior"])
        condition = f"be given for the agent in {str(path)!r}, as its problem has no name"
        remedy = f"its prior is {prior}: agents.load(path, problem=BanditProblem(...))"
        raise ValueError(message("problem", condition, given, remedy))
    if settings is None:
        return given  # type: ignore[return-value]  # the other is refused above
    with telling(path):
        if names_code(settings):
            raise ValueError(f"its problem names code: {settings}")
        stored = problem_from_dict(settings)
    if given is not None and given != stored:
        condition = f"be the one that the agent in {str(path)!r} was told, or be left out"
        raise ValueError(message("problem", condition, given))
    return stored


def _resume(path: Path, content: dict[str, Any], agent: Agent) -> Agent:
    with telling(path):
        num_envs, state = content["num_envs"], content["state"]
        counts, sums = state["lane_counts"], state["lane_sums"]
        if num_envs is not None:
            check_integer("num_envs", num_envs, minimum=1, maximum=len(counts))
        shape = (num_envs or 1, agent.problem.num_arms)
        if counts.shape != shape or sums.shape != shape:
            raise ValueError(f"counts and sums must have shape {shape}")
        if counts.dtype.kind == "i":
            check_statistics(counts, sums, agent.problem.likelihood, shape)
        agent.reset(num_envs, seed=0)
        set_state(agent, state)
        agent.rng.bit_generator.state = content["generator"]
    return agent
