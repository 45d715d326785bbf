"""Agents from files, as `Agent.save` has written them. Nothing in a file is run."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.base.agent import Agent
from agents.base.saved import is_custom_posterior, read_agent_file, restore_problem, set_state
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
    options, name = content["options"], content["posterior"]
    if (name is None) != (posterior is None):
        state = "be left out" if name is None else "be given"
        condition = f"{state} for the agent in {str(path)!r}, whose own is {name}"
        raise ValueError(message("posterior", condition, posterior))
    known = [*inspect.signature(kind).parameters][1:]
    check_keys("options", options, optional=known)  # a prior might name code
    if name is not None:
        options = options | {"posterior": posterior}
    elif is_custom_posterior(options.get("posterior")):
        raise ValueError(message("options", "name no code", options))
    agent: Agent = kind(problem, **options)
    agent.reset(content["num_envs"], seed=0)
    set_state(agent, content["state"])
    num_arms = agent.lane_counts.shape[1]
    if num_arms != problem.num_arms and not isinstance(problem, ContextualProblem):
        condition = f"have {num_arms} arms for the agent in {str(path)!r}"
        raise ValueError(message("problem", condition, problem.num_arms))
    agent.rng.bit_generator.state = content["generator"]
    return agent


def _find_class(path: Path, content: dict[str, Any], agent_class: Any) -> Any:
    module, _, name = content["class"].rpartition(":")
    ours = getattr(import_module(module), name, None) if module == "agents" else None
    found = agent_class or ours
    if getattr(found, "__qualname__", "") != name or ours not in (None, found):
        condition = f"be {name} in {module}, the class of the agent in {str(path)!r}"
        raise ValueError(message("agent_class", condition, agent_class))
    return found


def _find_problem(
    path: Path, content: dict[str, Any], given: BanditProblem | None
) -> BanditProblem:
    stored = None if given is None else check_problem(given)
    if content["problem"] is not None:
        stored = restore_problem(content["problem"])
    if stored is None:
        condition = f"be given for the agent in {str(path)!r}, as its problem has no name"
        prior = content["prior"]
        remedy = f"its prior is {prior}: agents.load(path, problem=BanditProblem(...))"
        raise ValueError(message("problem", condition, given, remedy))
    if given not in (None, stored):
        condition = f"be the one that the agent in {str(path)!r} was given, or be left out"
        raise ValueError(message("problem", condition, given))
    return stored
