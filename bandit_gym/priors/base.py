"""What a prior is, the one place that says what a prior can do, and priors by name.

An agent or environment that needs more of a prior than `sample` and `log_density` asks `offers`
for the capability by name, and never checks the prior's class.

Settings name a prior in a dict: its name, and a key for each parameter; where a parameter is a
distribution, or a list of distributions, it is a dict again. A list of dicts is a distribution for
each arm, and a name without parameters may stand alone. `prior_from_dict` reads data, and imports
nothing; `make_prior` imports what is named `module:name`, which is to run it, and is for what a
user has asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Protocol, runtime_checkable

from numpy.random import Generator

from bandit_gym.checks import (
    check_arguments,
    load_named,
    make_named,
    message,
    split_name,
)
from bandit_gym.checks.typing import FloatArray
from bandit_gym.priors import dependent, independent, mixtures
from bandit_gym.priors.dependent import TruncatedMultivariateNormal
from bandit_gym.priors.independent import has_own, keeps_draws


@runtime_checkable
class Prior(Protocol):
    """A distribution of the arms' means; it may also state its `support` or `arm_support`.

    `support` is the lowest and highest mean of any arm, `arm_support(num_arms)` the (K, 2) ends for
    each arm; samplers and integrators trust these ends, so they must be right.
    """

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means from `rng` alone.

        Args:
            rng: the only source of randomness.
            shape: shape of the result; its last axis is the K arms, the others are draws.
        """

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the log-density of the means, up to a constant; -inf outside the support.

        Args:
            means: (..., K) means.

        Returns:
            (...) log-densities.
        """


BUILT_IN = *independent.BUILT_IN, TruncatedMultivariateNormal
"""The classes of priors whose draws need no check."""


def _has_methods(*methods: str) -> Callable[[Any], bool]:
    return lambda prior: all(callable(getattr(prior, method, None)) for method in methods)


CAPABILITIES: Mapping[str, Callable[[Any], bool]] = {
    "log_density": _has_methods("sample", "log_density"),
    "arm_log_density": partial(has_own, method="arm_log_density"),
    "shared_components": partial(has_own, method="shared_components"),
    "natural_parameters": partial(has_own, method="natural_parameters"),
    "normal_box": lambda p: isinstance(p, TruncatedMultivariateNormal) and keeps_draws(p),
    "sample_each": partial(has_own, method="sample_each"),
    "quantile": lambda prior: type(prior) in BUILT_IN and hasattr(prior, "quantile"),
}
"""What a prior may offer, and how that is found.

- log_density: all that `Prior` asks for.
- arm_log_density: arms are independent, and `arm_log_density(means)` returns (..., K) log-densities
  of each, up to a constant and -inf outside.
- shared_components: `shared_components()` returns priors of independent arms, of which one is that
  of all arms, and their probabilities.
- natural_parameters: in `natural_parameters(num_arms)`, (K, 5) coefficients of log x, log(1 - x),
  x, x^2 and 1 / x in the log-density of arms that are independent.
- normal_box: a multivariate normal distribution, cut to a box.
- sample_each: `sample_each(rngs)` returns (N, K) means, to the last bit what `sample(rng, (K,))`
  draws from each generator.
- quantile: built-in priors alone. `quantile(uniforms)` turns (..., K) uniform numbers in (0, 1)
  into as many means, the same in any batch.
"""


def offers(prior: Any, capability: str) -> bool:
    """Say whether a prior has a capability, one of `CAPABILITIES`; a class is no prior.

    Of a user's subclass that overrides `sample` or `log_density`, only what it defines itself.
    """
    return CAPABILITIES[capability](prior) and not isinstance(prior, type)


@dataclass(frozen=True)
class UnknownPrior:
    """Stands for a prior where no one knows one, as of a table of visitors: agents need another."""

    is_unknown: ClassVar[bool] = True

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Refuse to draw."""
        raise ValueError(PRIOR_MISSING)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Refuse to tell."""
        raise ValueError(PRIOR_MISSING)


PRIOR_MISSING = "prior must be given where the environment knows none, got None; pass one."


# -- Priors by name -------------------------------------------------------------------------------

PRIORS: dict[str, Callable[..., Prior]] = {
    **{each.name: each for each in BUILT_IN},
    **{each.name: each for each in (mixtures.LogitNormal, mixtures.Mixture)},
    **{each.name: each for each in (mixtures.SharedMixture, mixtures.HierarchicalBeta)},
    **{each.name: each for each in (mixtures.PerArm, dependent.MultivariateNormal)},
    "spike_and_slab": mixtures.spike_and_slab,
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
        settings = {"name": mixtures.PerArm.name, "arms": settings}
    if isinstance(settings, str) and imports:
        settings = {"name": settings}
    name, options = split_name(kind, settings)
    if name == mixtures.PerArm.name and "laws" in options:  # as saved agents have it
        options["arms"] = options.pop("laws")
    made = {key: _make_inner(each, f"{key} of {kind}", imports) for key, each in options.items()}
    if not (imports and isinstance(name, str) and ":" in name):
        return make_named(kind, {"name": name, **made}, PRIORS)
    imported = load_named(kind, name)
    if callable(imported) and (options or not offers(imported, "log_density")):
        check_arguments(f"{kind} {name}", imported, {"name": name, **made})
        imported = imported(**made)
    if not offers(imported, "log_density"):
        condition = f"have the methods sample and log_density, as made by {name}"
        raise TypeError(message(kind, condition, imported))
    return imported


def _make_inner(value: Any, kind: str, imports: bool) -> Any:
    """Make a prior of a dict or of `module:name`, in lists too; keep all else as it is."""
    if isinstance(value, list | tuple):
        return [_make_inner(item, kind, imports) for item in value]
    is_named = imports and isinstance(value, str) and ":" in value
    is_prior_settings = isinstance(value, Mapping) or is_named
    return _make(value, kind, imports=imports) if is_prior_settings else value


def is_built_in(prior: Any) -> bool:
    """Say whether a prior is of a class of `PRIORS`, and so are its components."""
    if type(prior) not in PRIORS.values():
        return False
    parts = getattr(prior, "components", getattr(prior, "arms", ()))
    return all(map(is_built_in, parts))


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
