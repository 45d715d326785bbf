"""Which posterior fits a problem: the one place where capabilities are asked for.

| kind      | needs of the likelihood | needs of the prior                                         |
|-----------|-------------------------|------------------------------------------------------------|
| conjugate | a row in Table 1        | the class that is conjugate to it                          |
| mixture   | nothing more            | `shared_components`, each of which is conjugate or a grid  |
| grid      | nothing more            | `arm_log_density`: independent arms, a density for each    |
| gibbs     | a row in Table 1        | a normal law cut to a box, a `TruncatedMultivariateNormal` |
| particles | nothing more            | `log_density`                                              |
| race      | nothing more            | `log_density`                                              |

The first four are tried in that order; a grid takes mixtures too, all components by tables. Particles
and races approximate any posterior (`SMCThompson`, `RacingThompson`).
"""

from __future__ import annotations

from agents.base.table_1 import is_compiled, is_conjugate
from agents.posteriors.base import Posterior
from agents.posteriors.conjugate import conjugate_posterior
from bandit_gym.problem import BanditProblem, check_problem

OTHERS = "RacingThompson and SMCThompson take any prior"

NEEDS = {
    "conjugate": "be conjugate to the rewards",
    "mixture": "offer shared_components (a mixture of priors of independent arms)",
    "grid": "offer arm_log_density (arms independent a priori)",
    "gibbs": "be a TruncatedMultivariateNormal, with built-in rewards",
}
"""What each method needs of a prior, in words that follow "must"."""

METHODS = tuple(NEEDS)
DEPENDENT = "mixture", "gibbs"
"""Those whose arms depend on each other."""


def find_methods(problem: BanditProblem) -> list[str]:
    """Return the METHODS that can treat the problem, the best first."""
    fits = {
        "conjugate": is_conjugate(problem.likelihood, problem.prior),
        "mixture": problem.offers("shared_components"),
        "grid": problem.offers("arm_log_density") or problem.offers("shared_components"),
        "gibbs": problem.offers("normal_box") and is_compiled(problem.likelihood),
    }
    return [method for method in METHODS if fits[method]]


def exact_posterior(problem: BanditProblem, *, method: str = "auto") -> tuple[str, Posterior]:
    """Return the name of a kind and the posterior it makes.

    Args:
        problem: likelihood and prior.
        method: one of METHODS, or "auto" for the first that fits.

    Raises:
        ValueError: if the problem lacks what the method needs; says what that is.
    """
    check_problem(problem)
    found = find_methods(problem)
    if method == "auto" and not found:
        needs = ", or ".join(NEEDS.values())
        raise ValueError(f"problem.prior must {needs}, got {problem.prior!r}; {OTHERS}.")
    if method not in ("auto", *found):
        raise ValueError(
            f"problem.prior must {NEEDS[method]} for method={method!r}, got {problem.prior!r}; "
            f"use method='auto'; {OTHERS}."
        )
    method = found[0] if method == "auto" else method
    if method == "conjugate":
        return method, conjugate_posterior(problem)
    if problem.offers("shared_components"):
        from agents.posteriors.mixture import MixturePosterior

        return method, MixturePosterior(problem, by_tables=method == "grid")
    if method == "grid":
        from agents.posteriors.grid import GridPosterior  # brings numba, as chains do

        return method, GridPosterior(problem)
    from agents.posteriors.chains import GibbsPosterior

    return method, GibbsPosterior(problem)
