"""What is typed for environments and agents, read as entries: names, their options, and grids.

A session may give code and objects in place of names.
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from bandit_gym.checks import check_choice, check_keys, load_named, message
from bandit_gym.envs.contextual import find_env_classes
from bandit_gym.experiments.entries import (
    MAX_LABEL_LENGTH,
    PRIOR_OPTION,
    Entry,
    agent_names,
    is_packed,
    load_agent,
    pack_object,
    short_name,
    split_prior,
    unpack_object,
    write_options,
)
from bandit_gym.experiments.provenance import find_sources
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import PRIORS, describe_prior, prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import ENV_IDS
from bandit_gym.wrappers.wrapping import WRAPPERS, check_wrappers

FORMS = {"env": "an id, a BanditProblem", "agent": "a name, a class, a function"}
"""What single entries may be, for messages."""

ENTRY_KEYS = ("label", "grid")
"""What an entry of an experiment may have beside the options of its environment or agent."""

NUM_SAMPLER_ARGUMENTS = 5
GIVEN_ARGUMENTS = ("env", "problem")
"""Arguments that every wrapper or agent is given, and that are therefore no options."""

CATALOGUE_GROUPS = ("environments", "wrappers", "agents", "priors", "likelihoods")


def read_entries(name: str, kind: str, entries: Any) -> tuple[Entry, ...]:
    """Read a list of environments or agents, or a dict of labels and agents.

    Args:
        name: what the list is called.
        kind: "env" or "agent", the key that holds the name in an entry that is a dict.
        entries: names, code, problems, dicts with any of these, or `Entry`.

    Raises:
        TypeError: if an entry is anything else, or cannot be sent to workers.
    """
    if isinstance(entries, Mapping) and kind == "agent":
        entries = [_plain_settings(kind, each) | {"label": k} for k, each in entries.items()]
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise TypeError(message(name, "be a list, or for agents a dict of labels", entries))
    if not entries:
        raise ValueError(message(name, "have at least one entry", entries))
    found = tuple(entry for item in entries for entry in _expand_grid(kind, item))
    for first, second in itertools.combinations(found, 2):
        if first.label == second.label or first.digest == second.digest:
            condition, labels = "have different labels and settings", [first.label, second.label]
            raise ValueError(message(name, condition, labels, "remove one, or change it"))
    return found


def _expand_grid(kind: str, item: Any) -> Iterator[Entry]:
    """Yield one entry for each point of the item's grid; one in all if it has none."""
    if isinstance(item, Entry):
        yield item
        return
    settings = _plain_settings(kind, item)
    options = {k: v for k, v in settings.items() if k not in (kind, *ENTRY_KEYS)}
    grid, label = settings.get("grid", {}), settings.get("label")
    if not (isinstance(grid, Mapping) and all(isinstance(v, list) and v for v in grid.values())):
        raise TypeError(f"grid of {kind} must be a table of non-empty lists, got {grid!r}.")
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        own = f"{label}{write_options(point)}" if label and point else label
        yield _make_entry(kind, settings[kind], options | point, own)


def _make_entry(kind: str, name: str, options: dict[str, Any], label: str | None) -> Entry:
    target = (resolve_environment if kind == "env" else resolve_agent)(name, options)
    if label is None:
        prior, own = split_prior(options) if kind == "agent" else (None, options)
        belief = "" if prior is None else f", given {describe_prior(prior)}"
        label = _cut_label(f"{short_name(target)}{write_options(own)}{belief}")
    return Entry(target, options, label)


def _cut_label(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 3]}..."


def _plain_settings(kind: str, item: Any) -> dict[str, Any]:
    """Return an entry as a dict of plain settings, in which names stand for code and objects."""
    settings = dict(item) if isinstance(item, Mapping) else {kind: item}
    given = settings.pop(kind, None)
    if isinstance(given, str):
        named = {kind: given}
    elif kind == "env" and isinstance(given, BanditProblem):
        named = _name_problem(given)
    elif kind == "agent" and callable(given):
        named = {kind: name_of(given)}
    else:
        condition = f"be {FORMS[kind]}, or a dict with one of these as {kind!r}"
        raise TypeError(message(kind, condition, item))
    try:
        text = json.dumps(named | settings, default=_describe_object, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise TypeError(message(f"{kind} options", "be JSON-able", settings)) from error
    return dict(json.loads(text))


def _name_problem(problem: BanditProblem) -> dict[str, Any]:
    """Return settings of a problem: an id and options, or a packed name."""
    likelihood = problem.likelihood
    env_id = f"{type(likelihood).__name__}Bandit-v0"
    is_plain = type(problem) is BanditProblem and type(likelihood) in LIKELIHOODS.values()
    if is_plain and env_id in ENV_IDS:
        options = {"num_arms": problem.num_arms, "prior": problem.prior}
        return {"env": env_id} | options | vars(likelihood)
    return {"env": pack_object(problem)}


def _describe_object(value: Any) -> Any:
    """Return what JSON can hold of an object: numbers, a prior's settings, or a packed name."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)  # which sources are looked for among
    with suppress(AttributeError, TypeError, ValueError):
        settings = value.to_dict()
        if prior_from_dict(settings) == value:
            return settings
    return {"name": pack_object(value)}


# -- Names and their options ----------------------------------------------------------------------


def name_of(code: Any) -> str:
    """Return a target of a class or a function, by which any process finds it."""
    module, name = str(getattr(code, "__module__", "")), getattr(code, "__qualname__", "")
    if module.partition(".")[0] == "agents" and f"agents:{name}" in agent_names().values():
        return f"agents:{name}"  # as its short name has it, so that it draws the same numbers
    found = sys.modules.get(module)
    has_home = module in sys.builtin_module_names or getattr(found, "__file__", None) is not None
    is_importable = module != "__main__" and has_home and getattr(found, name, None) is code
    return f"{module}:{name}" if is_importable else pack_object(code)


def resolve_environment(name: str, options: Mapping[str, Any]) -> str:
    """Return an id that any process can make, `module:Id-v0` unless it is Gymnasium's own.

    Raises:
        ValueError: if the environment is unknown or has no such option; names the nearest.
    """
    target = f"bandit_gym:{name}" if name in ENV_IDS else name
    find_sources(target, options)  # which refuses modules that were edited since their import
    try:
        make = _find_environment(target)
    except (gym.error.Error, ImportError, TypeError, ValueError, AttributeError) as error:
        if ":" not in name:
            check_choice("env", name, ENV_IDS)
        reason = summarise_error(error).rstrip(".")
        raise ValueError(message("env", "be an id Gymnasium can make", name, reason)) from error
    _check_options(target, make, options)
    if "wrappers" in options:
        check_wrappers(options["wrappers"])
    return target


def resolve_agent(name: str, options: Mapping[str, Any]) -> str:
    """Return `module:Class` or alike of an agent given by its short name or so already.

    Raises:
        ValueError: if the agent is unknown or has no such option; names the nearest.
    """
    target = name if ":" in name else agent_names()[check_choice("agent", name, agent_names())]
    find_sources(target, options)  # which refuses modules that were edited since their import
    _check_options(target, load_agent(target), options)
    return target


def is_sampler(code: Any) -> bool:
    """Say whether a function takes what a sampler takes, `(problem, counts, sums, rng, size)`."""
    parameters = inspect.signature(code).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return not inspect.isclass(code) and len(required) == NUM_SAMPLER_ARGUMENTS


def _find_environment(target: str) -> Any:
    """Return an environment's factory."""
    if is_packed(target):  # a problem of a session
        return find_env_classes(unpack_object(target, {}))[0]
    module, _, env_id = target.rpartition(":")
    if module:
        import_module(module)  # which registers the id
    entry_point = gym.spec(env_id).entry_point
    return load_named("entry point", entry_point) if isinstance(entry_point, str) else entry_point


def _list_parameters(make: Any) -> dict[str, inspect.Parameter]:
    """Return what people may choose of the arguments of a constructor."""
    found = inspect.signature(make).parameters
    given = [*found][:NUM_SAMPLER_ARGUMENTS] if is_sampler(make) else GIVEN_ARGUMENTS
    return {name: each for name, each in found.items() if name not in given}


def describe_catalogue(*kinds: str) -> str:
    """List what the project has by name, with options and defaults, as text.

    Args:
        kinds: of `CATALOGUE_GROUPS`; none are all.
    """
    chosen = [check_choice("what", kind, CATALOGUE_GROUPS) for kind in kinds] or CATALOGUE_GROUPS
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
            parts += [_describe_factory(name, makers[kind][name]) for name in names]
    return "\n\n".join(parts)


def _describe_factory(name: str, make: Any) -> str:
    """Write a name and what its docstring says first, and on a line of their own its options."""
    summary = " ".join((inspect.getdoc(make) or "").partition("\n\n")[0].split())
    shown = (str(each.replace(annotation=each.empty)) for each in _list_parameters(make).values())
    return f"{name}: {summary}\n    {', '.join(shown) or 'no options'}"


def _check_options(target: str, make: Any, options: Mapping[str, Any]) -> None:
    """Refuse unknown options; what any entry may have is left to the constructor."""
    parameters = _list_parameters(make)
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        known = [*parameters, *ENTRY_KEYS, PRIOR_OPTION, "wrappers"]
        check_keys(f"options of {short_name(target)}", options, optional=known)


def summarise_error(error: BaseException) -> str:
    """Say in one line, fit for a terminal, what was raised."""
    line = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
