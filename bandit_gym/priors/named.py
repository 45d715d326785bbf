"""Priors by name, in dicts: all that come with the project, and `module:name` for one's own.

A dict has the name, and a key for each parameter; where a parameter is a distribution, or a list of
distributions, it is a dict again. A list of dicts is a distribution for each arm, and a name
without parameters may stand alone. `prior_from_dict` reads data, and imports nothing; `make_prior`
imports what is named `module:name`, which is to run it, and is for what a user has asked for.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, get_args

from bandit_gym.checks import check_arguments, load_named, make_named, message, split_name
from bandit_gym.priors.base import BuiltInPrior, Prior, offers
from bandit_gym.priors.dependent import MultivariateNormal
from bandit_gym.priors.independent import Laplace, StudentT
from bandit_gym.priors.mixtures import (
    HierarchicalBeta,
    LogitNormal,
    Mixture,
    PerArm,
    SharedMixture,
    spike_and_slab,
)

PRIORS: dict[str, Callable[..., Prior]] = {
    **{each.name: each for each in get_args(BuiltInPrior)},
    **{each.name: each for each in (LogitNormal, Mixture, SharedMixture, HierarchicalBeta, PerArm)},
    **{each.name: each for each in (StudentT, Laplace, MultivariateNormal)},
    "spike_and_slab": spike_and_slab,
}
"""Name -> the prior's factory, with its parameters as arguments."""


def prior_from_dict(settings: Any) -> Any:
    """Make the prior that a dict such as `{"name": "beta", "alpha": 1, "beta": 1}` describes.

    Args:
        settings: the dict, or a list of one for each arm.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, a key is missing, or a value is out of range.
    """
    return _make(settings, "prior", imports=False)


def make_prior(settings: Any) -> Prior:
    """Make the prior that a dict describes, import one's own, or return a prior that is given.

    Args:
        settings: a dict whose name may also read `module:name`, a list of one for each arm, a name
            alone, or a prior.

    Raises:
        TypeError: if a value is of the wrong kind, or what is imported is no prior.
        ValueError: if a name or a key is unknown, a key is missing, or a value is out of range.
    """
    is_prior = offers(settings, "log_density")  # which may be a tuple too
    if isinstance(settings, Mapping | str | list | tuple) and not is_prior:
        return _make(settings, "prior", imports=True)  # type: ignore[no-any-return]
    return settings  # type: ignore[no-any-return]


def _make(settings: Any, kind: str, *, imports: bool) -> Any:
    if isinstance(settings, list | tuple):
        settings = {"name": PerArm.name, "laws": settings}
    if isinstance(settings, str) and imports:
        settings = {"name": settings}
    name, options = split_name(kind, settings)
    made = {key: _make_inner(each, f"{key} of {kind}", imports) for key, each in options.items()}
    if not (imports and isinstance(name, str) and ":" in name):
        return make_named(kind, {"name": name, **made}, PRIORS)
    found = load_named(kind, name)
    if callable(found) and (options or not offers(found, "log_density")):
        check_arguments(f"{kind} {name}", found, {"name": name, **made})
        found = found(**made)
    if not offers(found, "log_density"):
        condition = f"have the methods sample and log_density, as made by {name}"
        raise TypeError(message(kind, condition, found))
    return found


def _make_inner(value: Any, kind: str, imports: bool) -> Any:
    """Make a prior of a dict or of `module:name`, in lists too; keep all else as it is."""
    if isinstance(value, list | tuple):
        return [_make_inner(item, kind, imports) for item in value]
    is_named = imports and isinstance(value, str) and ":" in value
    is_prior_settings = isinstance(value, Mapping) or is_named
    return _make(value, kind, imports=imports) if is_prior_settings else value


def describe_prior(settings: Any) -> str:
    """Write settings of a prior as a call, `beta(1, 1)`; nothing is made or imported."""
    if isinstance(settings, list | tuple):
        return f"[{', '.join(map(describe_prior, settings))}]"
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        return settings.rpartition(":")[2] if isinstance(settings, str) else f"{settings!r}"
    name, options = split_name("prior", settings)
    known = [*signature(PRIORS[name]).parameters][: len(options)] if name in PRIORS else []
    if {*known} == {*options}:
        values = [describe_prior(options[key]) for key in known]
    else:
        values = [f"{key}={describe_prior(value)}" for key, value in options.items()]
    return f"{name.rpartition(':')[2]}({', '.join(values)})"
