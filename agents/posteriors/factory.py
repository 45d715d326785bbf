"""Which posterior fits a problem: the one place where capabilities are asked for.

| kind      | needs of the likelihood | needs of the prior                                         |
|-----------|-------------------------|------------------------------------------------------------|
| conjugate | a row in Table 1        | the class that is conjugate to it                          |
| mixture   | nothing more            | `shared_components`, each of which is conjugate or a grid  |
| grid      | nothing more            | `arm_log_density`: independent arms, a density for each    |
| gibbs     | a row in Table 1        | `TruncatedMultivariateNormal`: a normal one cut to a box   |
| particles | nothing more            | `log_density`                                              |
| race      | nothing more            | `log_density`                                              |

The first four are tried in that order; a grid takes mixtures too, all components by tables.
Particles and races approximate any posterior (`SMCThompson`, `RacingThompson`). Where arms have
features, the kinds of `agents.regression` take their place, of which a normal posterior under
Gaussian rewards is the one that is conjugate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agents.base.conjugacy import is_compiled, is_conjugate
from agents.posteriors.base import Posterior
from agents.posteriors.conjugate import conjugate_posterior
from bandit_gym.checks import check_arguments, check_choice, load_named, message, split_name
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import MultivariateNormal, Normal, UnknownPrior
from bandit_gym.priors.base import PRIOR_MISSING
from bandit_gym.problem import BanditProblem, ContextualProblem

METHOD_NEEDS = {
    "conjugate": "be conjugate to the rewards",
    "mixture": "offer shared_components (a mixture of priors of independent arms)",
    "grid": "offer arm_log_density (arms independent a priori)",
    "gibbs": "be a TruncatedMultivariateNormal, with built-in rewards",
}
"""What each method needs of a prior, in words that follow "must"."""

EXACT_METHODS = tuple(METHOD_NEEDS)
DEPENDENT_METHODS = "mixture", "gibbs"
"""Those whose arms depend on each other."""

EXPECTED_POSTERIOR = "be a name, a dict with the key 'name', or a Posterior with update and sample"


def find_methods(problem: BanditProblem) -> list[str]:
    """Return the EXACT_METHODS that can treat the problem, the best first."""
    if problem.likelihood.needs_squares:  # and has the one prior that goes with it
        return ["conjugate"]
    if isinstance(problem, ContextualProblem):
        is_normal = type(problem.prior) in (Normal, MultivariateNormal)
        return ["conjugate"] if is_normal and isinstance(problem.likelihood, Gaussian) else []
    fits = {
        "conjugate": is_conjugate(problem.likelihood, problem.prior),
        "mixture": problem.offers("shared_components"),
        "grid": problem.offers("arm_log_density") or problem.offers("shared_components"),
        "gibbs": problem.offers("normal_box") and is_compiled(problem.likelihood),
    }
    return [method for method in EXACT_METHODS if fits[method]]


def exact_posterior(problem: BanditProblem, *, method: str = "auto") -> Posterior:
    """Return the posterior of a problem that has an exact one.

    Args:
        problem: likelihood and prior.
        method: one of EXACT_METHODS, or "auto" for the first that fits.

    Raises:
        ValueError: if the problem lacks what the method needs; says what that is.
    """
    check_choice("method", method, ("auto", *EXACT_METHODS))
    wanted = EXACT_METHODS if method == "auto" else (method,)
    if problem.likelihood.needs_squares:
        check_choice("method", method, ("auto", "conjugate"))
        from agents.posteriors.student import StudentPosterior

        return StudentPosterior(problem)
    suitable = [name for name in find_methods(problem) if name in wanted]
    if not suitable:
        needs = ", or ".join(METHOD_NEEDS[name] for name in wanted)
        condition = needs if method == "auto" else f"{needs} for method={method!r}"
        remedy = "RacingThompson and SMCThompson take any prior"
        raise ValueError(message("problem.prior", condition, problem.prior, remedy))
    method = suitable[0]
    if method == "conjugate":
        return conjugate_posterior(problem)
    if problem.offers("shared_components"):
        from agents.posteriors.mixture import MixturePosterior

        return MixturePosterior(problem, by_tables=method == "grid")
    if method == "grid":
        from agents.posteriors.grid import GridPosterior  # brings numba, as chains do

        return GridPosterior(problem)
    from agents.posteriors.chains import ChainPosterior

    return ChainPosterior(problem)


POSTERIORS = {
    "exact": f"{__name__}:exact_posterior",
    "smc": "agents.posteriors.particles:ParticlePosterior",
    "racing": "agents.racing.posterior:RacePosterior",
}
"""What rules call a posterior, and where its factory is."""

POSTERIORS_WITH_FEATURES = {
    "exact": "agents.regression.student:exact_coefficients",
    "smc": "agents.regression.particles:ParticleCoefficients",
    "racing": "agents.regression.posterior:CoefficientRace",
    "laplace": "agents.regression.posterior:LaplaceCoefficients",
}
"""The same where arms have features, of their coefficients."""


def make_posterior(problem: BanditProblem, posterior: Any) -> Posterior:
    """Return a posterior of its own.

    Args:
        problem: likelihood and prior.
        posterior: one of POSTERIORS, or of POSTERIORS_WITH_FEATURES; `module:name` of the factory
            of a user's own, given the problem; a dict of such a name and options; or a posterior of
            the problem, which is copied.

    Raises:
        TypeError: if it is anything else, or makes no posterior.
        ValueError: if the name or an option is unknown, or the posterior is of another problem.
    """
    if isinstance(problem.prior, UnknownPrior):
        raise ValueError(PRIOR_MISSING)
    if isinstance(posterior, Posterior):
        its_problem = getattr(posterior, "problem", None)
        if its_problem != problem:
            condition = f"be of the agent's own problem, {problem!r}, as its attribute problem says"
            raise ValueError(message("posterior", condition, its_problem))
        _require_squares(problem, type(posterior))
        return posterior.fork()
    if isinstance(posterior, str):
        posterior = {"name": posterior}
    if not isinstance(posterior, Mapping):
        raise TypeError(message("posterior", EXPECTED_POSTERIOR, posterior))
    name, options = split_name("posterior", posterior)
    is_users = isinstance(name, str) and ":" in name
    has_features = isinstance(problem, ContextualProblem)
    known = POSTERIORS_WITH_FEATURES if has_features else POSTERIORS
    target = name if is_users else known[check_choice("posterior", name, known)]
    loaded = load_named("posterior", target)
    if isinstance(loaded, type):
        _require_squares(problem, loaded)
    make = partial(loaded, problem)
    check_arguments(f"posterior {name}", make, posterior)
    made = make(**options)
    if not isinstance(made, Posterior):
        raise TypeError(message("posterior", EXPECTED_POSTERIOR, made))
    _require_squares(problem, type(made))
    return made


def _require_squares(problem: BanditProblem, kind: Any) -> None:
    """Refuse a kind of posterior that cannot do with rewards of unknown deviation."""
    if problem.likelihood.needs_squares and not getattr(kind, "takes_squares", False):
        condition = "be of a kind that takes rewards of unknown std, as takes_squares says"
        remedy = "ExactThompson has one, and other rules do by posterior='exact'"
        raise ValueError(message("posterior", condition, kind.__name__, remedy))
