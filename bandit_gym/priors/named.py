"""Priors by name, in dicts: all that come with the project, and `module:name` for one's own.

A dict has the name, and a key for each parameter; where a parameter is a law, or a list of laws, it
is a dict again. A list of dicts is a law for each arm, and a name without parameters may stand
alone. `prior_from_dict` reads data, and imports nothing; `make_prior` imports what is named
`module:name`, which is to run it, and is for what a user has asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bandit_gym.checks import check_arguments, load_named, make_named, message, split_name
from bandit_gym.priors.base import Prior, offers
from bandit_gym.priors.dependent import TruncatedMultivariateNormal
from bandit_gym.priors.independent import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import (
    Camps,
    HierarchicalBeta,
    LogitNormal,
    Mixture,
    PerArm,
    spike_and_slab,
)

PRIORS: dict[str, Callable[..., Prior]] = {
    **{
        law.name: law
        for law in (Beta, Gamma, InverseGamma, Normal, TruncatedNormal, TruncatedMultivariateNormal)
    },
    **{law.name: law for law in (LogitNormal, Mixture, Camps, HierarchicalBeta, PerArm)},
    "spike_and_slab": spike_and_slab,
}
"""Name -> what makes the prior, with its parameters as arguments."""

_NUMBER, _ABOVE = "a number", "above 0"
RANGES: dict[str, dict[str, str]] = {
    "beta": {"alpha": _ABOVE, "beta": _ABOVE},
    "gamma": {"shape": _ABOVE, "rate": _ABOVE},
    "inverse_gamma": {"shape": _ABOVE, "scale": _ABOVE},
    "normal": {"mean": _NUMBER, "std": _ABOVE},
    "truncated_normal": {"mean": _NUMBER, "std": _ABOVE, "low": _NUMBER, "high": "above low"},
    "truncated_multivariate_normal": {
        "mean": _NUMBER,
        "covariance": "K rows of K numbers, symmetric and positive definite",
        "low": _NUMBER,
        "high": "above low",
    },
    "logit_normal": {"mean": _NUMBER, "std": _ABOVE},
    "mixture": {"components": "a list of independent laws", "weights": "a list, above 0"},
    "camps": {"components": "a list of independent laws", "weights": "a list, above 0"},
    "hierarchical_beta": {
        "alphas": "a list, above 0",
        "betas": "a list as long, above 0",
        "weights": "a list as long, above 0",
    },
    "per_arm": {"laws": "a list of K independent laws"},
    "spike_and_slab": {
        "spike": "0 to 1",
        "width": _ABOVE,
        "slab": "an independent law",
        "share": "above 0 and below 1",
    },
}
"""Name -> parameter -> what it may be, for people; the numbers may be one per arm."""

_INNER = {
    "mixture": ("components",),
    "camps": ("components",),
    "per_arm": ("laws",),
    "spike_and_slab": ("slab",),
}
"""Name -> parameters that are laws, or lists of them."""

Own = Callable[[str, str, dict[str, Any]], Prior]


def prior_from_dict(settings: Any, *, kind: str = "prior") -> Any:
    """Make the prior that a dict such as `{"name": "beta", "alpha": 1, "beta": 1}` describes.

    Args:
        settings: the dict, or a list of one for each arm.
        kind: what messages call it.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, a key is missing, or a value is out of range.
    """
    return _make(settings, kind, None)


def make_prior(settings: Any, *, kind: str = "prior") -> Prior:
    """Make the prior that a dict describes, import one's own, or return a prior that is given.

    Args:
        settings: a dict whose name may also read `module:name`, a list of one for each arm, a name
            alone, or a prior.
        kind: what messages call it.

    Raises:
        TypeError: if a value is of the wrong kind, or what is imported is no prior.
        ValueError: if a name or a key is unknown, a key is missing, or a value is out of range.
    """
    is_prior = offers(settings, "log_density")  # which may be a tuple too
    if isinstance(settings, Mapping | str | list | tuple) and not is_prior:
        return _make(settings, kind, _make_own)  # type: ignore[no-any-return]
    return settings  # type: ignore[no-any-return]


def _make(settings: Any, kind: str, make_own: Own | None) -> Any:
    if isinstance(settings, list | tuple):
        settings = {"name": PerArm.name, "laws": _check_list(kind, settings, make_own)}
    if isinstance(settings, str) and make_own:
        settings = {"name": settings}
    name, options = split_name(kind, settings)
    for key in _INNER.get(name, ()) if isinstance(name, str) else ():
        if key in options:
            options[key] = _make_inner(options[key], f"{key} of {kind}", make_own)
    if make_own and isinstance(name, str) and ":" in name:
        return make_own(kind, name, options)
    return make_named(kind, {"name": name, **options}, PRIORS)


def _check_list(kind: str, listed: Sequence[Any], make_own: Own | None) -> Sequence[Any]:
    """Refuse a list that is not of one law for each arm."""
    kinds = (Mapping, str) if make_own else (Mapping,)
    is_law = [isinstance(item, kinds) or offers(item, "arm_log_density") for item in listed]
    if not is_law or not all(is_law):
        condition = "be a dict with the key 'name', or a list of such dicts, one for each arm"
        raise TypeError(message(kind, condition, listed))
    return listed


def _make_inner(value: Any, kind: str, make_own: Own | None) -> Any:
    """Make a law of a dict, laws of a list of dicts; leave what is none to whom it is for."""
    if isinstance(value, list | tuple):
        return [_make_inner(item, kind, make_own) for item in value]
    is_name = isinstance(value, str) and make_own
    return _make(value, kind, make_own) if isinstance(value, Mapping) or is_name else value


def _make_own(kind: str, name: str, options: dict[str, Any]) -> Prior:
    found = load_named(kind, name)
    if not offers(found, "log_density") or options:
        found = _call(kind, found, name, options)
    if not offers(found, "log_density"):
        condition = f"have the methods sample and log_density, as made by {name}"
        raise TypeError(message(kind, condition, found))
    return found  # type: ignore[no-any-return]


def _call(kind: str, make: Any, name: str, options: dict[str, Any]) -> Any:
    if not callable(make):
        raise TypeError(message(f"{kind} {name}", "be a prior, or a class that makes one", make))
    check_arguments(f"{kind} {name}", make, {"name": name, **options})
    return make(**options)


def describe_prior(settings: Any) -> str:
    """Write settings of a prior as a call, `beta(1, 1)`; nothing is made or imported."""
    if isinstance(settings, list | tuple):
        return f"[{', '.join(map(describe_prior, settings))}]"
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        return settings.rpartition(":")[2] if isinstance(settings, str) else f"{settings!r}"
    name, options = split_name("prior", settings)
    known = [*RANGES.get(name, ())][: len(options)]
    if {*known} == {*options}:
        values = [describe_prior(options[key]) for key in known]
    else:
        values = [f"{key}={describe_prior(value)}" for key, value in options.items()]
    return f"{name.rpartition(':')[2]}({', '.join(values)})"
