"""What a race draws from, and the weights that make up for the difference: the contract.

A proposal draws vectors mu of means and gives each a weight w(mu), the density of the true
posterior over that of the draw, up to a constant. Weights are exact whatever the proposal is; how
close it comes to the true posterior decides how many draws are needed, never what they mean.

Letters: K arms, N lanes, R races (rows), m samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bandit_gym.problem import BanditProblem

if TYPE_CHECKING:
    from agents.numerics.draw_tables import Tables


class Proposal:
    """A way to draw arm means, and to weigh the draws for the problem's own prior.

    Attributes:
        problem: likelihood and prior to weigh for.
        has_tables: whether `agents.numerics.draw_tables` can serve the draws.
        draw_cost: of one mean, in those of a mean drawn from a table.
    """

    problem: BanditProblem
    has_tables: ClassVar[bool]
    draw_cost: ClassVar[float]

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no posterior of its own, given its pulls."""
        return np.zeros(counts.shape, dtype=bool)

    def parameters(self, counts: np.ndarray, sums: np.ndarray) -> Any:
        """Return what `draw_rows` needs to know of all N lanes, given (N, K) statistics."""
        raise NotImplementedError

    def draw_rows(
        self,
        rng: np.random.Generator,
        rows: np.ndarray,
        parameters: Any,
        tables: Tables,
        num_samples: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each race.

        Args:
            rng: source of randomness.
            rows: (R,) each race's lane, of N.
            parameters: of all N lanes, see `parameters`.
            tables: of all N lanes and K arms, remade as needed, or none to draw without.
            num_samples: m.

        Returns:
            (R, m) log w of each draw, up to a constant, and (R, m) int64 best arm of each draw.

        Raises:
            ValueError: if the prior's log-density is NaN or +inf, or has the wrong shape.
        """
        raise NotImplementedError

    def draw(
        self, rng: np.random.Generator, counts: np.ndarray, sums: np.ndarray, num_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each of R races, given (R, K) statistics, without tables.

        Returns:
            As `draw_rows`.
        """
        from agents.numerics.draw_tables import NO_TABLES

        rows = np.arange(len(counts))
        return self.draw_rows(rng, rows, self.parameters(counts, sums), NO_TABLES, num_samples)

    def log_supremum(self) -> float:
        """Return log sup w(mu) over all means, up to the constant that `draw` leaves out.

        Raises:
            ValueError: if it is unknown or infinite.
        """
        raise ValueError(
            "scale must be 'value' or 'weight' unless the prior offers natural_parameters, got "
            f"'supremum' for {self.problem.prior!r}."
        )


def prior_log_density(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the prior's (R, m) log-density of (R, K, m) means; arms go last, as it expects.

    Raises:
        ValueError: if it has another shape, or is NaN or +inf.
    """
    log_density = np.asarray(problem.prior.log_density(means.transpose(0, 2, 1)))
    wanted = (means.shape[0], means.shape[2])
    if log_density.shape == tuple(size for size in wanted if size > 1):
        log_density = log_density.reshape(wanted)  # densities of SciPy drop dimensions of length 1
    if log_density.shape != wanted:
        raise ValueError(
            f"prior.log_density must map means (..., K) to (...): shape {wanted} for means of "
            f"shape {(*wanted, means.shape[1])}, got {log_density.shape}."
        )
    if not (log_density < np.inf).all():
        raise ValueError("prior.log_density must be finite or -inf, got NaN or +inf.")
    return log_density


def find_box(problem: BanditProblem) -> np.ndarray:
    """Return the (K, 2) ends of the arms' intervals."""
    prior: Any = problem.prior
    if hasattr(prior, "arm_support"):
        return np.array(prior.arm_support(problem.num_arms), dtype=np.float64)
    return np.tile(problem.likelihood.support, (problem.num_arms, 1)).astype(np.float64)
