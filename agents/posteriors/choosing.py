"""Which posterior fits a problem: the one place where capabilities are asked for.

| kind      | needs of the likelihood | needs of the prior                                         |
|-----------|-------------------------|------------------------------------------------------------|
| conjugate | a row in Table 1        | the class that is conjugate to it                          |
| grid      | nothing more            | `arm_log_density`: independent arms, a density for each    |
| gibbs     | a row in Table 1        | a normal law cut to a box, a `TruncatedMultivariateNormal` |
| particles | nothing more            | `log_density`                                              |
| race      | nothing more            | `log_density`                                              |

The exact kinds are the first three, tried in that order. Particles and races approximate any
posterior (`SMCThompson`, `RacingThompson`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agents.posteriors.base import Posterior
from agents.posteriors.conjugate import (
    conjugate_posterior,
    is_compiled,
    is_conjugate,
    reference_posterior,
)
from bandit_gym.likelihoods import Likelihood
from bandit_gym.problem import BanditProblem, check_problem

OTHERS = "RacingThompson and SMCThompson take any prior"


class Kind(NamedTuple):
    """A way to hold the exact posterior.

    Attributes:
        fits: says whether the problem has what it takes.
        need: what that is, in words that follow "must".
        make: makes the posterior; takes the problem and the sweeps of a chain.
    """

    fits: Callable[[BanditProblem], bool]
    need: str
    make: Callable[[BanditProblem, int], Posterior]


def _make_grid(problem: BanditProblem, num_sweeps: int) -> Posterior:
    from agents.posteriors.grid import GridPosterior  # brings numba

    return GridPosterior(problem)


def _make_gibbs(problem: BanditProblem, num_sweeps: int) -> Posterior:
    from agents.posteriors.chains import GibbsPosterior  # brings numba

    return GibbsPosterior(problem, num_sweeps)


KINDS = {
    "conjugate": Kind(
        lambda problem: is_conjugate(problem.likelihood, problem.prior),
        "be conjugate to the rewards",
        lambda problem, _: conjugate_posterior(problem),
    ),
    "grid": Kind(
        lambda problem: problem.offers("arm_log_density"),
        "offer arm_log_density (arms independent a priori)",
        _make_grid,
    ),
    "gibbs": Kind(
        lambda problem: problem.offers("normal_box") and is_compiled(problem.likelihood),
        "be a TruncatedMultivariateNormal, with built-in rewards",
        _make_gibbs,
    ),
}
METHODS = tuple(KINDS)


def exact_method(problem: BanditProblem) -> str:
    """Return the first of METHODS that can treat the problem.

    Raises:
        ValueError: if none can; says what is missing.
    """
    for method, kind in KINDS.items():
        if kind.fits(problem):
            return method
    needs = ", or ".join(kind.need for kind in KINDS.values())
    raise ValueError(f"problem.prior must {needs}, got {problem.prior!r}; {OTHERS}.")


def has_exact_posterior(problem: BanditProblem) -> bool:
    """Say whether one of METHODS can treat the problem."""
    return any(kind.fits(problem) for kind in KINDS.values())


def exact_posterior(
    problem: BanditProblem, *, prior: str = "problem", method: str = "auto", num_sweeps: int = 4
) -> tuple[str, Posterior]:
    """Return the name of a kind and the posterior it makes.

    Args:
        problem: likelihood and prior.
        prior: "problem" for the problem's own, or "reference" for Table 1's.
        method: one of METHODS, or "auto" for the first that fits.
        num_sweeps: of a Markov chain each time that it is renewed.

    Raises:
        ValueError: if the problem lacks what the method needs; says what that is.
    """
    check_problem(problem)
    if prior == "reference":
        if method not in ("auto", "conjugate"):
            raise ValueError(
                f"method must be 'conjugate' where prior is 'reference', got {method!r}."
            )
        require_row(problem.likelihood, "prior must be 'problem'", "'reference'")
        return "conjugate", reference_posterior(problem)
    method = exact_method(problem) if method == "auto" else method
    kind = KINDS[method]
    if not kind.fits(problem):
        raise ValueError(
            f"problem.prior must {kind.need} for method={method!r}, got {problem.prior!r}; "
            f"use method='auto'; {OTHERS}."
        )
    return method, kind.make(problem, num_sweeps)


def require_row(likelihood: Likelihood, condition: str, got: str) -> None:
    """Refuse a likelihood that Table 1 has no row for."""
    if not is_compiled(likelihood):
        raise ValueError(
            f"{condition} for {likelihood.name} rewards, which have no row in Table 1, got {got}."
        )
