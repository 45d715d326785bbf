"""What the project has by name, as `bandit-gym list` shows it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from bandit_gym.checks import check_choice
from bandit_gym.experiments.entries import (
    agent_names,
    find_environment,
    list_parameters,
    load_agent,
)
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import PRIORS
from bandit_gym.registration import ENV_IDS
from bandit_gym.wrappers.built_in import WRAPPERS

CATALOGUE_GROUPS = ("environments", "wrappers", "agents", "priors", "likelihoods")


def describe_catalogue(*kinds: str) -> str:
    """List what the project has by name, with options and defaults, as text.

    Args:
        kinds: of `CATALOGUE_GROUPS`; none are all.
    """
    chosen = [check_choice("what", kind, CATALOGUE_GROUPS) for kind in kinds] or CATALOGUE_GROUPS
    makers: dict[str, Mapping[str, Any]] = {
        "environments": {name: find_environment(f"bandit_gym:{name}") for name in ENV_IDS},
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
    shown = (str(each.replace(annotation=each.empty)) for each in list_parameters(make).values())
    return f"{name}: {summary}\n    {', '.join(shown) or 'no options'}"
