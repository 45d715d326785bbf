"""Published approximations of Thompson sampling for arms with features, each from its paper.

A sampler is a posterior of coefficients (see "A posterior with features" in the docs): `update`
takes the rows, and `draw` returns independent draws given these. Chains begin at the mode, so that
no draw depends on an earlier one. Regression is logistic and the prior normal where nothing else is
said.

Notation: N lanes, S draws of a lane, n rows, d coefficients, K arms, t decisions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.base.rows import Rows
from agents.numerics.choices import draw_arms
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.base import Posterior
from agents.regression.fits import CoefficientFits
from bandit_gym.checks import message
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem

MAX_VALUES = 2_000_000
"""Of the largest array of a batch of draws."""

SLOPE_STEP = 1e-4
"""Of numerical slopes of a log-density."""


def find_normal(fits: CoefficientFits) -> tuple[np.ndarray, np.ndarray]:
    """Return the (N, d) modes, and (N, d, d) factors A of the covariances A A' there."""
    fit = fits.fit
    centre, factor = np.empty_like(fit.mean), np.empty_like(fit.factor)
    centre[:, fit.order], factor[:, fit.order] = fit.mean, fit.factor
    return centre, factor


class CoefficientSampler(Posterior):
    """A posterior that is known by independent draws of its coefficients.

    Arguments:
        problem: likelihood, prior, and the number of features.

    Attributes:
        x: (N, d, n) features of the rows.
        totals: (N, 1, n) numbers of rewards, and their sums.
        halves: (N, 1, n) of n_i / 2, and (N, 1, n) of k_i = s_i - n_i / 2.

    Raises:
        ValueError: if it is for logistic regression with a normal prior, and the problem is not.
    """

    problem: ContextualProblem
    source = "independent draws of a sampler"
    takes_features = True
    keeps_state, state_names = False, ()
    is_logistic = False

    def __init__(self, problem: ContextualProblem) -> None:
        is_known = type(problem.prior) is Normal and type(problem.likelihood) is Bernoulli
        if self.is_logistic and not is_known:
            condition = f"have Bernoulli rewards and a normal prior for {type(self).__name__}"
            raise ValueError(message("problem", condition, problem))
        self.problem = problem
        self.fits = CoefficientFits(problem, 1.0, is_laplace=True)

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        self.fits.start(num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        self.fits.restart(mask)

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Find the mode of every lane given its rows."""
        self.fits.update(rows)
        size = max(1, int(rows.sizes.max()))
        self.x = np.ascontiguousarray(rows.columns[..., :size])
        counts, sums = rows.counts[:, None, :size].astype(float), rows.sums[:, None, :size]
        self.totals, self.halves = (counts, sums), (counts / 2, sums - counts / 2)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients."""
        return np.asarray(self.draw(rng, 1)[:, 0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, d) draws of the coefficients, by batches that fit into memory."""
        num_lanes, num_features, num_rows = self.x.shape
        values = num_lanes * num_features * max(num_rows, num_features)
        batches = -(-size // max(1, MAX_VALUES // values))
        sizes = map(len, np.array_split(np.arange(size), batches))
        drawn = [self.draw(rng, each) for each in sizes]
        return np.concatenate(drawn, axis=1).swapaxes(0, 1)

    @abstractmethod
    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return (N, S, d) independent draws, S = `size`."""

    def doubts(self) -> np.ndarray:
        """Return (N,) zeros: it draws nothing to find out."""
        return np.zeros(len(self.x), dtype=np.int64)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Return the (N, S) log-densities of coefficients, to a constant."""
        std: Any = getattr(self.problem.likelihood, "known_std", None)
        values = self.problem.link.log_likelihood(theta @ self.x, *self.totals, std)
        return np.asarray(values.sum(axis=-1) + self.problem.prior.log_density(theta))

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """Return the (N, S, d) slopes of the log-density.

        The log-likelihood of a row of n rewards with sum s and mean m = g(eta) has the slope
        (s - n m) w along eta, w being 1 / std^2 of Gaussian rewards, 1 / m of exponential ones and
        1 of others. Logistic regression has s - n m = k - (n / 2) tanh(eta / 2), which is faster.
        """
        (counts, sums), likelihood = self.totals, self.problem.likelihood
        if isinstance(likelihood, Bernoulli):
            half_counts, centred_sums = self.halves
            residuals = centred_sums - half_counts * np.tanh((theta / 2) @ self.x)
        else:
            means = self.problem.link.mean(theta @ self.x)
            residuals = sums - counts * means
            if isinstance(likelihood, Gaussian):
                residuals /= likelihood.known_std**2
            elif isinstance(likelihood, Exponential):
                residuals /= means
        return np.asarray(residuals @ self.x.swapaxes(1, 2) + self.prior_slopes(theta))

    def prior_slopes(self, theta: np.ndarray) -> np.ndarray:
        """Return the (N, S, d) slopes of the prior's log-density."""
        prior: Any = self.problem.prior
        if type(prior) is Normal:
            return np.asarray((prior.mean - theta) / np.square(prior.std))
        above, below = (prior.arm_log_density(theta + h) for h in (SLOPE_STEP, -SLOPE_STEP))
        return np.asarray((above - below) / (2 * SLOPE_STEP))

    def join_normal(
        self, weights: np.ndarray, moments: np.ndarray, centre: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, S, d) means and (N, S, d, d) precisions of a prior beside normal factors.

        P = V_0^-1 + sum_i w_i x_i x_i' and P m = V_0^-1 m_0 + sum_i k_i x_i.

        Args:
            weights: (N, S, n), w.
            moments: (N, S, n), k.
            centre: (N, S, d) in place of the prior's m_0.
        """
        prior: Any = self.problem.prior
        precision = np.broadcast_to(1 / np.square(prior.std), self.x.shape[1])
        centre = prior.mean if centre is None else centre
        weighted = self.x[:, None] * weights[:, :, None]
        precisions = weighted @ self.x[:, None].swapaxes(2, 3) + np.diag(precision)
        totals = moments @ self.x.swapaxes(1, 2) + precision * centre
        return np.linalg.solve(precisions, totals[..., None])[..., 0], precisions


def draw_normal(rng: Generator, centre: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """Return (N, S, d) draws of normal distributions with (N, S or 1, d, d) precisions."""
    roots = np.linalg.cholesky(precisions).swapaxes(-1, -2)
    noise = rng.standard_normal(centre.shape)[..., None]
    return np.asarray(centre + np.linalg.solve(roots, noise)[..., 0])


class Hamiltonian(CoefficientSampler):
    """Hamiltonian Monte Carlo; with one leap a move, Langevin's; without rejections, unadjusted.

    With theta = mode + A u, a move draws p ~ N(0, I) and makes L leaps p += (e / 2) grad, u += e p,
    p += (e / 2) grad. It is accepted with probability exp(change of log-density - |p|^2 / 2). One
    leap is Langevin's u += (e^2 / 2) grad + e p (Neal 2011, "MCMC using Hamiltonian dynamics",
    section 5.2). Several leaps have a step from e / 2 to 3 e / 2, drawn for each move: else some
    directions return to where they began (section 3.2). Langevin's for bandits: Mazumdar et al.
    (2020), Xu et al. (2022).

    Arguments:
        problem: likelihood, prior, and the number of features.
        step: e, in units of A.
        num_leaps: L.
        num_moves: of a chain.
        is_adjusted: whether moves may be rejected.
        is_preconditioned: whether A is the factor of the covariance at the mode; else it is one
            over the root of the largest curvature there, the same for all directions.
    """

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        step: float,
        num_leaps: int = 1,
        num_moves: int = 50,
        is_adjusted: bool = True,
        is_preconditioned: bool = False,
    ) -> None:
        super().__init__(problem)
        self.step, self.num_leaps, self.num_moves = step, num_leaps, num_moves
        self.is_adjusted, self.is_preconditioned = is_adjusted, is_preconditioned

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return the (N, S, d) ends of chains."""
        centre, factor = find_normal(self.fits)
        if not self.is_preconditioned:
            widths = np.linalg.norm(factor, -2, axis=(1, 2))
            factor = widths[:, None, None] * np.eye(len(factor[0]))

        def find_theta(place: np.ndarray) -> np.ndarray:
            return np.asarray(centre[:, None] + place @ factor.swapaxes(1, 2))

        place = np.zeros((len(centre), size, centre.shape[1]))
        slope, value = self.slopes(find_theta(place)) @ factor, self.log_density(find_theta(place))
        for _ in range(self.num_moves):
            momentum = rng.standard_normal(place.shape)
            energy = value - np.square(momentum).sum(axis=-1) / 2
            moved, moved_slope = place, slope
            step: Any = self.step
            if self.num_leaps > 1:
                step = step * rng.uniform(0.5, 1.5, (*value.shape, 1))
            for _ in range(self.num_leaps):
                momentum = momentum + step / 2 * moved_slope
                moved = moved + step * momentum
                moved_slope = self.slopes(find_theta(moved)) @ factor
                momentum = momentum + step / 2 * moved_slope
            if not self.is_adjusted:
                place, slope = moved, moved_slope
                continue
            moved_value = self.log_density(find_theta(moved))
            gain = moved_value - np.square(momentum).sum(axis=-1) / 2 - energy
            is_moved = rng.random(gain.shape) < np.exp(np.minimum(gain, 0.0))
            value = np.where(is_moved, moved_value, value)
            place = np.where(is_moved[..., None], moved, place)
            slope = np.where(is_moved[..., None], moved_slope, slope)
        return find_theta(place)


class StochasticLangevin(CoefficientSampler):
    """Unadjusted Langevin whose slopes are of some rows: Welling and Teh (2011), equation 4.

    For bandits Mazumdar et al. (2020), algorithm 3. The step is h in units of one over the largest
    curvature at the mode; each chain draws its rows anew at each step.

    Arguments:
        problem: likelihood, prior, and the number of features.
        step: h.
        num_steps: of a chain.
        batch: rows of a step.
    """

    is_logistic = True

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        step: float = 0.1,
        num_steps: int = 50,
        batch: int = 32,
    ) -> None:
        super().__init__(problem)
        self.step, self.num_steps, self.batch = step, num_steps, batch

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Find the mode of every lane, and keep the rows for batches."""
        super().update(rng, rows)
        self.features, self.sizes = self.x.swapaxes(1, 2).copy(), np.maximum(rows.sizes, 1)

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return the (N, S, d) ends of chains."""
        centre, factor = find_normal(self.fits)
        step = self.step * np.linalg.norm(factor, -2, axis=(1, 2))[:, None, None] ** 2
        counts, sums = self.totals
        theta = np.repeat(centre[:, None], size, axis=1)
        sizes, lanes = self.sizes[:, None, None], np.arange(len(centre))[:, None, None]
        for _ in range(self.num_steps):
            chosen = (rng.random((*theta.shape[:2], self.batch)) * sizes).astype(np.int64)
            x = self.features[lanes, chosen]
            means = special.expit((x @ theta[..., None])[..., 0])
            residuals = sums[lanes, 0, chosen] - counts[lanes, 0, chosen] * means
            slope = (residuals[:, :, None] @ x)[:, :, 0] * sizes / self.batch
            noise = np.sqrt(2 * step) * rng.standard_normal(theta.shape)
            theta = theta + step * (slope + self.prior_slopes(theta)) + noise
        return theta


class PolyaGamma(CoefficientSampler):
    """Gibbs sampling with Polya-Gamma variables: Dumitrascu, Feng and Engelhardt (2018), "PG-TS".

    w_i ~ PG(n_i, x_i . theta), theta ~ N(P^-1 r, P^-1) with k_i = s_i - n_i / 2, see `join_normal`
    (Polson, Scott and Windle 2013). They recommend 100 sweeps, and try one.

    Arguments:
        problem: likelihood, prior, and the number of features.
        num_sweeps: of a chain.
    """

    is_logistic = True

    def __init__(self, problem: ContextualProblem, *, num_sweeps: int) -> None:
        super().__init__(problem)
        self.num_sweeps = num_sweeps

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return the (N, S, d) ends of chains."""
        from polyagamma import random_polyagamma  # not a package that the project needs

        counts = self.totals[0]
        theta = np.repeat(find_normal(self.fits)[0][:, None], size, axis=1)
        for _ in range(self.num_sweeps):
            drawn = random_polyagamma(np.maximum(counts, 1.0), theta @ self.x, random_state=rng)
            joined = self.join_normal(np.where(counts > 0, drawn, 0.0), self.halves[1])
            theta = draw_normal(rng, *joined)
        return theta


class Variational(CoefficientSampler):
    """A normal distribution by a lower bound: Jaakkola and Jordan (2000), equations 8 to 11.

    w_i = n_i tanh(xi_i / 2) / (2 xi_i), xi_i^2 = x_i' (P^-1 + m m') x_i, see `join_normal`.

    Arguments:
        problem: likelihood, prior, and the number of features.
        num_rounds: of these two lines.
    """

    is_logistic = True

    def __init__(self, problem: ContextualProblem, *, num_rounds: int = 30) -> None:
        super().__init__(problem)
        self.num_rounds = num_rounds

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Fit the distribution of every lane."""
        super().update(rng, rows)
        predictors = find_normal(self.fits)[0][:, None] @ self.x
        for _ in range(self.num_rounds):
            weights = self.totals[0] * find_slants(predictors)
            self.centre, self.precisions = self.join_normal(weights, self.halves[1])
            spread = np.linalg.solve(self.precisions[:, 0], self.x)
            squares = np.square(self.centre @ self.x) + (self.x * spread).sum(axis=1)[:, None]
            predictors = np.sqrt(squares)

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return (N, S, d) draws of it."""
        return draw_normal(rng, np.repeat(self.centre, size, axis=1), self.precisions)


def find_slants(predictors: np.ndarray) -> np.ndarray:
    """Return tanh(eta / 2) / (2 eta), which is 1 / 4 at 0."""
    size = np.maximum(np.abs(predictors), 1e-6)
    return np.asarray(np.tanh(size / 2) / (2 * size))


class Bootstrap(CoefficientSampler):
    """Modes under random weights: Osband and Van Roy (2015), "Bootstrapped Thompson Sampling".

    Each reward has a weight from Exp(1) (the Bayesian bootstrap, Rubin 1981), and a draw of the
    prior takes the place of its mean. The mode is found by minorisation: w_i = n_i tanh(eta_i / 2)
    / (2 eta_i), theta = m, see `join_normal`.

    Arguments:
        problem: likelihood, prior, and the number of features.
        num_rounds: of these two lines.
    """

    is_logistic = True

    def __init__(self, problem: ContextualProblem, *, num_rounds: int = 30) -> None:
        super().__init__(problem)
        self.num_rounds = num_rounds

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return (N, S, d) modes."""
        counts, sums = self.totals
        shape = len(counts), size, counts.shape[-1]
        paid, unpaid = (rng.standard_gamma(each, shape) for each in (sums, counts - sums))
        theta = np.repeat(find_normal(self.fits)[0][:, None], size, axis=1)
        centre = self.problem.prior.sample(rng, theta.shape)
        for _ in range(self.num_rounds):
            weights = (paid + unpaid) * find_slants(theta @ self.x)
            theta, _ = self.join_normal(weights, (paid - unpaid) / 2, centre)
        return theta


NOISE = 0.5
"""R for which rewards in [0, 1] are R-sub-Gaussian."""


class LinearThompson(CoefficientSampler):
    """Linear regression on rewards of 0 and 1: Agrawal and Goyal (2013), algorithm 1.

    theta ~ N(B^-1 sum_i y_i x_i, v^2 B^-1), B = I + sum_i x_i x_i'. The theorem asks for v = R
    sqrt(9 d log(t / 0.05)); in practice v = R.

    Arguments:
        problem: likelihood, prior, and the number of features.
        is_inflated: whether v is the theorem's.
    """

    is_logistic = True

    def __init__(self, problem: ContextualProblem, *, is_inflated: bool = False) -> None:
        super().__init__(problem)
        self.is_inflated = is_inflated

    def draw(self, rng: Generator, size: int) -> np.ndarray:
        """Return (N, S, d) draws."""
        counts, sums = self.totals
        num_features = self.x.shape[1]
        precisions = np.eye(num_features) + (self.x * counts) @ self.x.swapaxes(1, 2)
        centre = np.linalg.solve(precisions, self.x @ sums.swapaxes(1, 2)).swapaxes(1, 2)
        num_steps = 1 + counts.sum(axis=-1)[..., None]
        inflation = np.sqrt(9 * num_features * np.log(num_steps / 0.05))
        width = NOISE * (inflation if self.is_inflated else 1.0)
        zeros = np.zeros((len(centre), size, num_features))
        return centre + width * draw_normal(rng, zeros, precisions[:, None])


class FeelGood(Hamiltonian):
    """Feel-good Thompson sampling: Zhang (2022), with the likelihood in place of squared loss.

    The density is times exp(b sum_s max_a g(x_sa . theta)), over past decisions: optimistic
    coefficients count more. Arms' features are kept from `update` to `update`.

    Arguments:
        problem: likelihood, prior, and the number of features.
        weight: b.
        options: see `Hamiltonian`.
    """

    def __init__(self, problem: ContextualProblem, *, weight: float, **options: Any) -> None:
        super().__init__(problem, **options)
        self.weight = weight

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        super().start(rng, num_lanes)
        self.shown = np.zeros((num_lanes, 0, self.problem.num_arms, self.problem.num_features))
        self.last, self.num_rewards = self.shown, 0

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Bring every lane to its rows, and keep what arms showed at the last decision."""
        super().update(rng, rows)
        if rows.counts.sum() > self.num_rewards:
            self.shown = np.concatenate([self.shown, self.last], axis=1)
        self.last, self.num_rewards = rows.decision_features[:, None], rows.counts.sum()

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Return log-densities, see `CoefficientSampler.log_density`."""
        return super().log_density(theta) + self.tilts(theta)[0]

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """Return slopes, see `CoefficientSampler.slopes`."""
        return super().slopes(theta) + self.tilts(theta)[1]

    def tilts(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N, S) logarithms of what is times the posterior, and their slopes."""
        num_lanes, num_steps, num_arms, num_features = self.shown.shape
        x = self.shown.reshape(num_lanes, num_steps * num_arms, num_features)
        predictors = (theta @ x.swapaxes(1, 2)).reshape(*theta.shape[:2], num_steps, num_arms)
        best = predictors.max(axis=-1, keepdims=True, initial=-np.inf)
        means = special.expit(best)
        slopes = np.where(predictors == best, means * (1 - means), 0.0)
        slope = slopes.reshape(*theta.shape[:2], num_steps * num_arms) @ x
        return self.weight * means.sum(axis=(2, 3)), self.weight * slope


class Maillard(PosteriorAgent):
    """Maillard's rule on the Laplace approximation: arms by how well their gap is explained.

    P_a is proportional to exp(-gap_a^2 / (2 v_a)), the gap being that of predictors at the mode to
    the best, and v_a the variance of this difference. Bian and Jun (2022), "Maillard Sampling",
    have v_a = std^2 / pulls without features; with features this is our reading.
    """

    uses_draws = False
    takes_features = True

    def __init__(self, problem: ContextualProblem) -> None:
        super().__init__(problem, posterior="laplace")

    def _choose(self) -> np.ndarray:
        return draw_arms(self.rng, self._action_probabilities())

    def _action_probabilities(self) -> np.ndarray:
        self.belief()
        features, (centre, factor) = (
            self.evidence.decision_features,
            find_normal(self._posterior.fits),
        )
        predictors = np.einsum("nkd,nd->nk", features, centre)
        best = predictors.argmax(axis=1)[:, None, None]
        differences = np.take_along_axis(features, best, axis=1) - features
        gaps = np.einsum("nkd,nd->nk", differences, centre)
        variances = np.square(differences @ factor).sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = np.exp(-np.square(gaps) / (2 * variances))
        scores = np.where(variances > 0, scores, 1.0)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))
