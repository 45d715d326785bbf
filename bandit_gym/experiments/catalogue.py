"""What an experiment can name, environments and agents, and which options each of them takes.

Agents are found by name at run time, since this package imports none: a short name is looked up in
`agents.AGENTS`, and `module:Class` names a class of anybody's with the methods of `BanditAgent`, or
`module:Class.method` a class method that makes one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import gymnasium as gym

from bandit_gym.checks import NAMED, check_choice, check_keys, message
from bandit_gym.envs import BanditEnv
from bandit_gym.experiments.command_line import terminal_width, wrap
from bandit_gym.experiments.packed import is_packed, shown, unpack
from bandit_gym.experiments.provenance import find_code, find_module, find_sources
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import PRIORS, describe_prior
from bandit_gym.registration import ENV_IDS
from bandit_gym.rollout import BanditAgent
from bandit_gym.wrappers.wrapping import WRAPPERS, check_wrappers

Parameters = dict[str, inspect.Parameter]
PRIOR = "prior"
"""The option of an agent that tells it another prior than its world's."""

ENTRY_KEYS = ("label", "grid")
"""What an entry of an experiment may have beside the options of its environment or agent."""

METHODS = ("reset", "act", "observe")
NUM_SAMPLER_ARGUMENTS = 5


def resolve_environment(name: str, options: Mapping[str, Any]) -> str:
    """Return an id that any process can make, `module:Id-v0` unless it is Gymnasium's own.

    Raises:
        ValueError: if the environment is unknown or has no such option; names the nearest.
    """
    target = f"bandit_gym:{name}" if name in ENV_IDS else name
    find_sources(target, options)  # which forgets modules that have changed
    try:
        parameters = _parameters(_find_environment(target))
    except (gym.error.Error, ImportError, TypeError, ValueError, AttributeError) as error:
        if ":" not in name:
            check_choice("env", name, ENV_IDS)
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message("env", "be an id Gymnasium can make", name, reason)) from error
    plain = {option: value for option, value in options.items() if option != "wrappers"}
    _check_options(f"options of {short_name(target)}", parameters, plain)
    check_wrappers(options.get("wrappers", []))
    return target


def resolve_agent(name: str, options: Mapping[str, Any]) -> str:
    """Return `module:Class` or alike of an agent given by its short name or so already.

    Raises:
        ValueError: if the agent is unknown or has no such option; names the nearest.
    """
    target = name if ":" in name else agent_names()[check_choice("agent", name, agent_names())]
    find_sources(target, options)  # which forgets modules that have changed
    own = without_told(options)
    known = agent_options(target)
    if target.startswith("agents:"):  # which all take a prior, and words for one
        known = known | {PRIOR: inspect.Parameter(PRIOR, inspect.Parameter.KEYWORD_ONLY)}
    _check_options(f"options of {short_name(target)}", known, own)
    return target


def agent_names() -> Mapping[str, str]:
    """Return the short names of the agents that come with the project, and their targets.

    Raises:
        ImportError: if Python finds another `agents` first; nothing of it is run.
    """
    found, ours = find_module("agents"), Path(__file__).parents[2] / "agents"
    if found and found.parent.resolve() != ours.resolve():
        raise ImportError(
            f"agents must be the package that comes with bandit_gym, got {str(found)!r}, which "
            "Python finds first; give that folder or file another name."
        )
    return import_module("agents").AGENTS  # type: ignore[no-any-return]


def short_name(target: str) -> str:
    """Return what people call a target: an agent's short name, or what follows the module."""
    names = {known: name for name, known in agent_names().items()}
    return names.get(target, shown(target).rpartition(":")[2])


def agent_options(target: str) -> Parameters:
    """Return the keyword arguments of an agent's constructor, the problem left out.

    Of a sampler those beside what every sampler is given; see `bandit_gym.fidelity.trial`.
    """
    code = load_agent(target)
    num_given = NUM_SAMPLER_ARGUMENTS if is_sampler(code) else 1
    return dict(list(inspect.signature(code).parameters.items())[num_given:])


def is_sampler(code: Any) -> bool:
    """Say whether a function takes what a sampler takes, `(problem, counts, sums, rng, size)`."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        parameter
        for parameter in inspect.signature(code).parameters.values()
        if parameter.kind in positional and parameter.default is parameter.empty
    ]
    return not inspect.isclass(code) and len(required) == NUM_SAMPLER_ARGUMENTS


def load_agent(target: str) -> Callable[..., BanditAgent]:
    """Import an agent's class.

    Raises:
        TypeError: if it is neither an agent's class nor a function.
        ValueError: if there is no such module or class.
    """
    if not (is_packed(target) or NAMED.fullmatch(target)):
        raise ValueError(message("agent", "be a short name or read module:Class", target))
    try:
        found = load(target)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        plain = isinstance(error, ImportError | AttributeError | ValueError)
        words = str(error) if plain else f"{type(error).__name__}: {error}"
        reason = " ".join(words.split()).rstrip(".")
        raise ValueError(message("agent", "be an importable class", target, reason)) from error
    if not _may_be_agent(found):
        condition = f"be a class with methods {', '.join(METHODS)}, or a function that makes one"
        raise TypeError(message("agent", condition, target))
    return found  # type: ignore[no-any-return]


def _may_be_agent(found: Any) -> bool:
    if inspect.isclass(found):
        return all(callable(getattr(found, name, None)) for name in METHODS)
    return callable(found) and not inspect.isbuiltin(found)


def load(target: str) -> Any:
    """Import `module:name`, which may have dots, `Class.method`, or unpack a packed name."""
    if is_packed(target):
        return unpack(target)
    module, _, name = target.partition(":")
    return attrgetter(name)(import_module(module))


def find_own_code(experiment: Any) -> list[str]:
    """List what an experiment runs that does not come with this project; nothing is imported."""
    known = {f"bandit_gym:{env_id}" for env_id in ENV_IDS} | {*agent_names().values()}
    return find_code(experiment, known)


def told_prior(options: Mapping[str, Any]) -> Any:
    """Return the prior that an agent's options tell it, as settings; None if it is its world's."""
    value = options.get(PRIOR)
    is_word = isinstance(value, str) and ":" not in value
    return None if is_word else value


def without_told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the agent's own."""
    is_told = told_prior(options) is not None
    return {key: value for key, value in options.items() if not (is_told and key == PRIOR)}


def describe_belief(options: Mapping[str, Any]) -> str:
    """Return what a label says of the prior that an agent is told; nothing if it is its world's."""
    told = told_prior(options)
    return "" if told is None else f", told {describe_prior(told)}"


KINDS = ("environments", "wrappers", "agents", "priors", "likelihoods")
HANDED = ("env", "problem")
"""Arguments that every wrapper or agent is given, and that are therefore no options."""


def describe_catalogue(*kinds: str) -> str:
    """List what the project has by name, with options and defaults, as text.

    Args:
        kinds: of `KINDS`; none are all.
    """
    chosen = [check_choice("what", kind, KINDS) for kind in kinds] or KINDS
    makers: dict[str, Mapping[str, Any]] = {
        "environments": {name: _find_environment(f"bandit_gym:{name}") for name in ENV_IDS},
        "wrappers": WRAPPERS,
        "agents": {name: load_agent(target) for name, target in agent_names().items()},
        "priors": PRIORS,
        "likelihoods": LIKELIHOODS,
    }
    parts = []
    for kind in chosen:
        parts.append(kind.upper())
        groups = import_module("agents").GROUPS if kind == "agents" else {"": makers[kind]}
        for group, names in groups.items():
            parts += [f"-- {group} --"] if group else []
            parts += [_describe(name, makers[kind][name]) for name in names]
    return "\n\n".join(parts)


def _find_environment(target: str) -> Any:
    if is_packed(target):  # a problem of a session
        return BanditEnv
    module, _, env_id = target.rpartition(":")
    if module:
        import_module(module)  # which registers the id
    entry_point = gym.spec(env_id).entry_point
    return load(entry_point) if isinstance(entry_point, str) else entry_point


def _describe(name: str, make: Any) -> str:
    """Write a name, what its docstring says first, and its options, each below the other."""
    summary = " ".join((inspect.getdoc(make) or "").partition("\n\n")[0].split())
    told = (str(each.replace(annotation=each.empty)) for each in _parameters(make).values())
    options = ", ".join(told) or "no options"
    width = terminal_width()
    return f"{wrap(f'{name}: {summary}', width)}\n{wrap(options, width, '    ')}"


def _parameters(make: Any) -> Parameters:
    """Return what people may choose of the arguments of a constructor."""
    found = inspect.signature(make).parameters
    return {name: each for name, each in found.items() if name not in HANDED}


def _check_options(name: str, parameters: Parameters, options: Mapping[str, Any]) -> None:
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if not takes_any:
        check_keys(name, options, optional=[*parameters, *ENTRY_KEYS])
