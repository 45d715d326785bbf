"""What a prior is, and the one place that says what a prior can do.

An agent or environment that needs more of a prior than `sample` and `log_density` asks `offers`
for the capability by name, and never checks the prior's class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.random import Generator

from bandit_gym.checks.typing import FloatArray
from bandit_gym.priors.dependent import TruncatedMultivariateNormal
from bandit_gym.priors.independent import Beta, Gamma, InverseGamma, Normal, TruncatedNormal


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


def _has_methods(*methods: str) -> Callable[[Any], bool]:
    return lambda prior: all(callable(getattr(prior, method, None)) for method in methods)


CAPABILITIES: Mapping[str, Callable[[Any], bool]] = {
    "log_density": _has_methods("sample", "log_density"),
    "arm_log_density": _has_methods("arm_log_density"),
    "shared_components": _has_methods("shared_components"),
    "natural_parameters": _has_methods("natural_parameters"),
    "normal_box": lambda prior: isinstance(prior, TruncatedMultivariateNormal),
    "sample_each": _has_methods("sample_each"),
    # A user's subclass may override `sample`.
    "quantile": lambda prior: type(prior) in get_args(BuiltInPrior) and hasattr(prior, "quantile"),
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

BuiltInPrior = Beta | Gamma | InverseGamma | Normal | TruncatedNormal | TruncatedMultivariateNormal


def offers(prior: Any, capability: str) -> bool:
    """Say whether a prior has a capability, one of `CAPABILITIES`; a class is no prior."""
    return CAPABILITIES[capability](prior) and not isinstance(prior, type)


def get_stated_support(prior: Any, num_arms: int) -> FloatArray:
    """Return the (K, 2) lowest and highest means that the prior states; infinite if it does not."""
    ends: Any = -np.inf, np.inf
    if getattr(prior, "arm_support", None) is not None:
        ends = prior.arm_support(num_arms)
    elif getattr(prior, "support", None) is not None:
        ends = prior.support
    return np.broadcast_to(np.asarray(ends, dtype=np.float64), (num_arms, 2))


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
