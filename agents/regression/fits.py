"""Proposals of the coefficients: normal fits of all lanes, what their draws are worth, lengths.

A normal prior is taken as it is. Student's t, Laplace's distribution and mixtures are mixtures of
normal distributions, of each coefficient or (`SharedMixture`) of all at once; where there are
infinitely many components, those at some quantiles of their variances stand for all. Any other
prior is stood in for by the normal distribution with the moments of its draws. If that is not near
a joint density, a mixture that is fitted to the draws takes its place. Weights have the prior's own
density in any case.

Each coefficient of a mixture has a *site*, a normal factor of the coefficient alone that is matched
as those of rows are, to the moments of the mixture beside everything else.

Notation: N lanes, L of them that are due, n rows of a lane at most, d features, B blocks,
C components, m draws.

References:
    Andrews and Mallows (1974), "Scale mixtures of normal distributions".
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from scipy.cluster.vq import kmeans2
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaincinv

from agents.base.evidence import find_discounts
from agents.base.rows import ForgettingRows, Rows, join_rows
from agents.posteriors.weighted_draws import normalise_weights
from agents.regression.draws import draw_weigh_and_compare, make_room
from agents.regression.gaussian import is_normal, join_mean, make_prior_rows
from agents.regression.likelihoods import make_link_code
from agents.regression.normal_fit import Components, Data, Fit
from agents.regression.proposals import MIN_CAVITY
from agents.regression.sites import ALL_ROWS, NEW_ROWS, NO_ROWS, update_sites
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Laplace, Mixture, Normal, SharedMixture, StudentT
from bandit_gym.priors.independent import keeps_draws
from bandit_gym.problem import ContextualProblem

NUM_PILOTS = 256, 1024
"""Draws that decide nothing, but give the efficiency, the effective samples that a draw is worth;
and as many where that is below FAIR_EFFICIENCY, as few overstate a small one."""

MIN_EFFICIENCY = 0.1
"""Below it a lane is flagged: so few pilots overstate small efficiencies."""

FAIR_EFFICIENCY, MAX_DRAW_FACTOR = 0.75, 4.0
"""Efficiency below which more effective samples are drawn, and how many times as many at most."""

MAX_DRAWS = 4096
"""Of a block, for one decision."""

NUM_SWEEPS = 2
"""Over all sites, whenever rewards have grown by a share:"""

GROWTH = 0.1, 0.25
"""Where a draw is worth less than FAIR_EFFICIENCY, and elsewhere."""

NUM_STAND_IN_DRAWS = 4096
"""Of the prior, for its moments."""

NUM_FITTED, NUM_FIT_STEPS, MIN_FITTED_DRAWS = 10, 30, 0.01
"""Components of a fitted mixture, steps of EM, and the weight, in draws, of a guess of each."""

NUM_LEVELS = 64
"""Intervals at whose ends densities of coefficients are compared."""

COMPONENT_LEVELS = np.concatenate([np.arange(16) / 16, 1 - 4.0 ** -np.arange(2, 8) / 4, [1.0]])
"""Shares of a distribution of variances at which components begin and end; fine in the tail."""

NO_FEATURES, NO_ARMS = np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64)
"""Of draws by which no arms are compared."""

MIN_SITE = 0.01
"""Least precision of a site, beside that of the widest component: a cavity between two modes would
have it negative."""


class CoefficientFits:
    """Normal fits of N lanes, block by block, and what draws around them are worth.

    Coefficients that share a row in any lane are in one block; so all lanes have the same blocks.

    Arguments:
        problem: likelihood and prior.
        effective_samples: that the draws of a decision are to be worth.
        is_laplace: whether the fits are Laplace approximations, else those of EP.

    Attributes:
        labels: (d,) block of each coefficient, named by the lowest one in it.
        efficiencies: (N, B) effective samples that a draw is worth.
        lengths: (N, B) draws of a decision.
        num_rewards: (N, B) of each block.
        next_renewal: (N, B) rewards at which sites and efficiencies are renewed.
        num_discounts: (N,) of `ForgettingRows` that the fits have followed, as the next.
        num_removals: (N,), after which fits begin anew, as rows have other places.
    """

    state_names = (
        *("labels", "efficiencies", "lengths", "num_rewards", "next_renewal", "fit"),
        *("num_discounts", "num_removals"),
    )
    fit: Fit
    num_rewards: np.ndarray
    next_renewal: np.ndarray
    _summary: np.ndarray | None = None  # of the rows that the prior knows

    def __init__(
        self, problem: ContextualProblem, effective_samples: float, is_laplace: bool = False
    ) -> None:
        self.problem, self.is_laplace = problem, is_laplace
        self.effective_samples = effective_samples
        self.link = make_link_code(problem)
        self.has_normal_prior = is_normal(problem.prior)
        self.components, self.first_sites, self.normal = describe_prior(problem)
        self.start(0)

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        self.num_discounts = self.num_removals = np.zeros(0, dtype=np.int64)
        self._summary = None
        self._begin(num_lanes, self.normal)

    def _begin(self, num_lanes: int, prior_rows: np.ndarray) -> None:
        """Begin with (d, d + 1) rows of a prior."""
        self._prior_rows = prior_rows
        _, groups = connected_components(prior_rows[:, :-1] != 0)
        _, first, which = np.unique(groups, return_index=True, return_inverse=True)
        self.labels = first[which]  # the lowest coefficient that each depends on
        no_rows = np.zeros((num_lanes, 0)), np.zeros((num_lanes, 0, 2))
        self._arrange(*no_rows, np.tile(self.first_sites, (num_lanes, 1, 1)))

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        if self._summary is not None and mask.any():
            self.start(len(mask))
        for values in (self.fit.seen, self.fit.sites, self.fit.row_starts, self.fit.point):
            values[mask] = 0
        self.fit.prior_sites[mask] = self.first_sites
        self.num_rewards[mask], self.next_renewal[mask] = 0, 0

    def update(self, rows: Rows) -> None:
        """Bring all lanes to their data; an interrupt leaves them without any."""
        try:
            self._follow(rows)
        except BaseException:
            self.start(len(rows.counts))
            raise

    def _follow(self, rows: Rows) -> None:
        # Counts as floats, which discounted ones are, so that one signature is compiled.
        self.data = Data(rows.columns, rows.counts.astype(np.float64), rows.sums)
        if rows.summary is not self._summary:
            self._take_summary(rows)
        if isinstance(rows, ForgettingRows):
            self._follow_forgetting(rows)
        if self.next_renewal.all() and self.has_seen(rows):
            return
        fit = self.fit
        if more := rows.counts.shape[1] - fit.seen.shape[1]:
            extra = (0, 0), (0, more)
            seen, sites = np.pad(fit.seen, extra), np.pad(fit.sites, (*extra, (0, 0)))
            self.fit = fit._replace(rows=np.pad(fit.rows, extra), seen=seen, sites=sites)
        is_split = fit.starts.size > 2
        if is_split and join_blocks(self.data, self.fit.seen, self.labels):
            self._arrange(self.fit.seen, self.fit.sites, self.fit.prior_sites)
        self._update_sites(np.ones(self.next_renewal.shape, dtype=np.bool_), NEW_ROWS)
        self.fit.seen[:] = rows.counts
        is_due = self.num_rewards >= self.next_renewal
        if is_due.any():
            self._renew(is_due)

    def _update_sites(self, chosen: np.ndarray, step: int) -> None:
        """Take a step of `update_sites` in (N, B) chosen blocks."""
        options = self.fit, self.num_rewards, self.next_renewal, self.is_laplace or None
        pairs = map(np.ascontiguousarray, chosen.nonzero())  # with one layout, for one kernel
        update_sites(self.link, self.data, *options, *pairs, step)

    def _take_summary(self, rows: Rows) -> None:
        """Let the prior be that after the rows which a summary stands for; begin anew with it."""
        summary = self._summary = rows.summary
        prior_rows = self.normal
        if summary is not None:
            prior_rows = join_rows(np.vstack([self.normal, summary]))
        if not np.array_equal(prior_rows, self.fit.prior):
            self._begin(len(rows.counts), prior_rows)
        self._prior_rows = prior_rows

    def _follow_forgetting(self, rows: ForgettingRows) -> None:
        """Scale all sites by the discounts since; where rows are gone, begin with the prior."""
        is_gone = not np.array_equal(rows.num_removals, self.num_removals)
        if not is_gone:
            times, was_seen = rows.num_discounts - self.num_discounts, self.fit.seen > 0
            for step in range(times.max(initial=0)):  # as counts were: equal bits are no change
                is_due = times > step
                self.fit.seen[is_due] *= find_discounts(self.fit.seen[is_due], rows.discount)
            is_gone = (was_seen & (self.fit.seen == 0)).any()  # counts were forgotten
        if is_gone:
            self.start(len(rows.counts))
            self.num_discounts = rows.num_discounts.copy()
            self.num_removals = rows.num_removals.copy()
            return
        self.fit.sites[:] *= (rows.discount**times)[:, None, None]
        self.num_rewards *= (rows.discount**times)[:, None]
        self.next_renewal *= (rows.discount**times)[:, None]
        self._update_sites((times[:, None] > 0) & (self.next_renewal != 0), NO_ROWS)
        self.num_discounts = rows.num_discounts.copy()

    def data_version(self) -> float:
        """Return `Rows.data_version` of the data that fits are brought to."""
        if self.num_removals.size:
            return int((self.num_discounts + self.num_removals).sum())
        return float(self.num_rewards.sum())

    def has_seen(self, rows: Rows) -> bool:
        """Say whether fits are brought to all rows."""
        if isinstance(rows, ForgettingRows):  # whose counts may be the same again
            pairs = (rows.num_removals, self.num_removals), (rows.num_discounts, self.num_discounts)
            if not all(np.array_equal(*pair) for pair in pairs):
                return False
        return np.array_equal(rows.counts, self.fit.seen)

    def draw(self, rng: Generator, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, d, m) draws of (N, B) lengths, and their (N, B, m) log-weights.

        Draws are in the original order of coefficients; log-weights are -inf beyond a length.
        """
        draws, log_weights = make_room(self.fit, lengths)
        self.weigh(rng, lengths, draws, log_weights, is_given=False)
        return draws, log_weights

    def weigh(
        self,
        rng: Generator,
        lengths: np.ndarray,
        draws: np.ndarray,
        log_weights: np.ndarray,
        *,
        is_given: bool = True,
    ) -> None:
        """Add what prior and data say of draws to minus their log-densities; or draw them first."""
        known = self.link, self.data, self.fit, self.components, lengths, self.has_normal_prior
        draw_weigh_and_compare(rng, *known, is_given, NO_FEATURES, draws, log_weights, NO_ARMS)
        if not self.has_normal_prior:
            log_weights += self.log_prior(draws)

    def race(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the (N,) best arms of (N, K, d) features under one draw, for a normal prior."""
        arms = np.empty(len(features), dtype=np.int64)
        given = self.link, self.data, self.fit, None, self.lengths, True, False, features
        draw_weigh_and_compare(rng, *given, *make_room(self.fit, self.lengths), arms)
        return arms

    def take_lane(self, lane: int) -> Self:
        """Return those of one lane alone, to draw from."""
        twin, fit = copy.copy(self), self.fit
        of_lane = {name: each[lane : lane + 1] for name, each in fit._asdict().items()}
        of_all = {"order": fit.order, "starts": fit.starts, "prior": fit.prior}
        twin.fit = Fit(**(of_lane | of_all))
        twin.data = Data(*(each[lane : lane + 1] for each in self.data))
        return twin

    def log_prior(self, draws: np.ndarray) -> np.ndarray:
        """Return the (N, B, m) log-densities of (N, d, m) draws, to a constant, by block."""
        prior: Any = self.problem.prior
        theta = draws.swapaxes(1, 2)
        if len(self.fit.starts) == 2:
            return np.asarray(prior.log_density(theta))[:, None]
        each = prior.arm_log_density(theta)[..., self.fit.order]
        return np.add.reduceat(each, self.fit.starts[:-1], axis=2).swapaxes(1, 2)

    def find_lengths(self, effective_samples: float) -> np.ndarray:
        """Return (N, B) draws that are worth so many effective samples; MAX_DRAWS at most.

        Where a draw is worth little, weights differ much, and choices among draws of the same worth
        are biased more: there are up to MAX_DRAW_FACTOR times as many then.
        """
        more = np.clip(np.square(FAIR_EFFICIENCY / self.efficiencies), 1.0, MAX_DRAW_FACTOR)
        wanted = np.ceil(effective_samples * more / self.efficiencies)
        return np.minimum(wanted, MAX_DRAWS).astype(np.int64)

    def doubts(self) -> np.ndarray:
        """Return (N,) where a draw of some block is worth too little to trust the pilots.

        Of Laplace approximations, which have none, only where there is no fit in reach of numbers.
        """
        is_few = (self.efficiencies < MIN_EFFICIENCY).any(axis=1)
        is_few |= ~np.isfinite(self.fit.mean).all(axis=1)
        few = np.where(is_few, Doubt.FEW_EFFECTIVE_SAMPLES.value, 0)
        is_ill_conditioned = self.fit.is_ill_conditioned.any(axis=1)
        return few | np.where(is_ill_conditioned, Doubt.ILL_CONDITIONED.value, 0)

    def _renew(self, is_due: np.ndarray) -> None:
        """Renew the sites of the (N, B) blocks that are due, and what draws of theirs are worth."""
        for _ in range(NUM_SWEEPS):
            self._match_prior_sites(is_due)
            self._update_sites(is_due, ALL_ROWS)
        is_low = is_due & (not self.is_laplace)
        # Few pilots may have missed a component.
        for num_pilots in NUM_PILOTS if self.components is None else NUM_PILOTS[-1:]:
            if is_low.any():
                _, log_weights = self.draw(make_generator("pilots"), num_pilots * is_low)
                weights = normalise_weights(log_weights[is_low])[0]
                sizes = np.nan_to_num(1 / np.square(weights).sum(axis=1), nan=1.0)
                # NaN: no draw is in reach of numbers.
                self.efficiencies[is_low] = sizes / num_pilots
            is_low &= self.efficiencies < FAIR_EFFICIENCY
        growth = np.where(self.efficiencies < FAIR_EFFICIENCY, *GROWTH) * self.num_rewards
        following = self.num_rewards + np.maximum(growth, 1).astype(np.int64)
        self.next_renewal = np.where(is_due, following, self.next_renewal)
        self.lengths = self.find_lengths(self.effective_samples)

    def _match_prior_sites(self, is_due: np.ndarray) -> None:
        """Renew the sites of the coefficients in (N, B) due blocks of a mixture."""
        if self.components is None or self.components.is_shared:
            return
        fit, lanes = self.fit, np.flatnonzero(is_due.any(axis=1))
        position = np.argsort(fit.order)  # of each coefficient
        is_own = np.repeat(is_due[lanes], np.diff(fit.starts), axis=1)[:, position, None]
        variance = np.square(fit.factor[lanes]).sum(axis=2)[:, position]
        tau, nu = np.moveaxis(fit.prior_sites[lanes], 2, 0)
        cavity = np.maximum(1 / variance - tau, MIN_CAVITY / variance)
        centre = (fit.mean[lanes][:, position] / variance - nu) / cavity
        means, precisions = self.components.means, self.components.precisions
        both = cavity[..., None] + precisions
        mean = (cavity * centre)[..., None] / both + precisions * means / both
        joint = 1 / (1 / cavity[..., None] + 1 / precisions)
        log_choices = 0.5 * np.log(joint) - 0.5 * joint * np.square(centre[..., None] - means)
        choices = normalise_weights(self.components.log_weights + log_choices)[0]
        average = (choices * mean).sum(axis=2)
        variance = (choices * (1 / both + np.square(mean - average[..., None]))).sum(axis=2)
        tau = np.maximum(1 / variance - cavity, MIN_SITE * precisions.min(axis=1))
        sites = np.stack([tau, average * (tau + cavity) - centre * cavity], axis=2)
        fit.prior_sites[lanes] = np.where(is_own, sites, fit.prior_sites[lanes])

    def _resume(self) -> None:
        """Name the arrays of a saved agent again; counts were integers in files before."""
        fit = Fit(*self.fit)
        self.fit = fit._replace(seen=fit.seen.astype(np.float64))
        self.num_rewards, self.next_renewal = self.num_rewards + 0.0, self.next_renewal + 0.0

    def _arrange(self, seen: np.ndarray, sites: np.ndarray, prior_sites: np.ndarray) -> None:
        """Make room for the blocks that labels say, given what rows and coefficients have."""
        names, sizes = np.unique(self.labels, return_counts=True)
        num_lanes, num_blocks, size = len(seen), len(names), len(self.labels)
        self.fit = Fit(
            order=np.argsort(self.labels, kind="stable"),
            starts=np.concatenate([[0], sizes.cumsum()]),
            rows=np.zeros(seen.shape, dtype=np.int64),
            row_starts=np.zeros((num_lanes, num_blocks + 1), dtype=np.int64),
            seen=seen,
            sites=sites,
            prior=self._prior_rows,
            prior_sites=prior_sites,
            point=np.zeros((num_lanes, size)),
            mean=np.zeros((num_lanes, size)),
            root=np.zeros((num_lanes, size, size)),
            shift=np.zeros((num_lanes, size)),
            errors=np.zeros((num_lanes, size, size)),
            is_ill_conditioned=np.zeros((num_lanes, num_blocks), dtype=bool),
            factor=np.zeros((num_lanes, size, size)),
        )
        self.efficiencies = np.ones((num_lanes, num_blocks))
        self.lengths = np.ones((num_lanes, num_blocks), dtype=np.int64)
        self.num_rewards, self.next_renewal = np.zeros((2, num_lanes, num_blocks))


def join_blocks(data: Data, seen: np.ndarray, labels: np.ndarray) -> bool:
    """Give the coefficients of each new row one label; say whether any label has changed.

    Args:
        data: all rows.
        seen: (N, n) counts of each row before.
        labels: (d,) block of each coefficient, the lowest coefficient in it.
    """
    lanes, rows = ((data.counts > 0) & (seen == 0)).nonzero()
    is_used = data.columns[lanes, :, rows] != 0
    lowest = np.where(is_used, labels, labels.size).min(axis=1)
    joins = is_used[lowest < np.where(is_used, labels, -1).max(axis=1)]
    for joined in joins:
        names = np.unique(labels[joined])
        labels[np.isin(labels, names)] = names[0]
    return len(joins) > 0


def describe_prior(problem: ContextualProblem) -> tuple[Components | None, np.ndarray, np.ndarray]:
    """Return what fits know of a prior.

    Returns:
        Components of a mixture, None of any other; (d, 2) tau and nu of sites before data, 0 where
        there are none; and the (d, d + 1) rows [W | W m_0] of a normal prior N(m_0, (W'W)^-1), or
        of one that stands in, 0 where coefficients have sites.
    """
    prior, size = problem.prior, problem.num_features
    components, sites, normal = None, np.zeros((size, 2)), np.zeros((size, size + 1))
    parts = [] if is_normal(prior) else stack_components(prior, size)
    is_shared = isinstance(prior, SharedMixture)
    if not (is_normal(prior) or parts or is_nearly_normal(problem)):
        parts, is_shared = fit_components(problem), not problem.offers("arm_log_density")
    if parts:
        weights, means, precisions = np.ascontiguousarray(np.transpose(parts, (1, 2, 0)))
        scales = 0.5 * np.log(precisions)
        components = Components(weights, np.log(weights), means, precisions, scales, is_shared)
        if not is_shared:
            tau = np.exp(2 * (weights * scales).sum(axis=1))
            sites[:] = np.stack([tau, tau * (weights * means).sum(axis=1)], axis=1)
            return components, sites, normal
    if is_normal(prior):
        normal[:] = make_prior_rows(problem)
    else:
        mean, covariance = estimate_moments(problem)
        normal[:] = join_mean(np.linalg.inv(np.linalg.cholesky(covariance)), mean)
    return components, sites, normal


def stack_components(prior: Any, size: int) -> list[np.ndarray]:
    """Return (3, d) arrays of weights, means and precisions, one a component; [] if not known."""
    if not keeps_draws(prior):
        return []
    if isinstance(prior, Mixture | SharedMixture):
        parts = [stack_components(each, size) for each in prior.components]
        if not all(parts) or (isinstance(prior, SharedMixture) and max(map(len, parts)) > 1):
            return []
        pairs = zip(parts, prior.weights, strict=True)
        return [np.stack([weight * part[0], *part[1:]]) for each, weight in pairs for part in each]
    if isinstance(prior, Normal):
        weights, variances = np.ones((1, 1)), np.square(prior.std)
    elif isinstance(prior, StudentT | Laplace):
        below, above = COMPONENT_LEVELS[:-1, None], COMPONENT_LEVELS[1:, None]
        weights, levels = above - below, (above + below) / 2
        variances = -2 * np.log1p(-levels)
        if isinstance(prior, StudentT):
            half = np.asarray(prior.df) / 2
            variances = half / gammaincinv(half, 1 - levels)
        variances = variances * np.square(prior.scale)
    else:
        return []
    numbers = np.broadcast_arrays(weights, prior.mean, 1 / variances, np.empty(size))
    return list(np.stack(numbers[:3], axis=1))


def is_nearly_normal(problem: ContextualProblem) -> bool:
    """Say whether a prior p is near the normal distribution q with the moments of its draws.

    With w = p / q, draws of q are worth E_q[w] / E_p[w] draws of p each. It is taken at draws of
    both, as those of q alone may miss a mode of p.
    """
    mean, covariance = estimate_moments(problem)
    factor, rng = np.linalg.cholesky(covariance), make_generator("prior sample")
    prior: Any = problem.prior
    own = prior.sample(rng, (NUM_STAND_IN_DRAWS, problem.num_features))
    log_means = []
    for theta in (mean + rng.standard_normal(own.shape) @ factor.T, own):
        noise = np.linalg.solve(factor, (theta - mean).T)
        log_weights = prior.log_density(theta) + 0.5 * np.square(noise).sum(axis=0)
        log_means.append(normalise_weights(log_weights[None])[1][0])
    return bool(log_means[0] - log_means[1] > np.log(FAIR_EFFICIENCY))


def fit_components(problem: ContextualProblem) -> list[np.ndarray]:
    """Return components as `stack_components` does, of mixtures fitted to draws of a prior.

    One normal distribution would hardly ever draw from a narrow mode, and weights would not show
    it. Coefficients that are independent have a mixture each, or one for all of the same density.
    """
    prior: Any = problem.prior
    shape = NUM_STAND_IN_DRAWS, problem.num_features
    draws = prior.sample(make_generator("prior sample"), shape)
    if not problem.offers("arm_log_density"):
        return fit_mixture(draws)
    levels = np.quantile(draws, np.arange(1, NUM_LEVELS) / NUM_LEVELS)
    densities = prior.arm_log_density(np.tile(levels[:, None], shape[1]))
    _, first, which = np.unique(densities, axis=1, return_index=True, return_inverse=True)
    fitted = [fit_mixture(draws[:, [a]]) for a in first.tolist()]
    return list(np.concatenate([fitted[i] for i in which.ravel()], axis=2))


def fit_mixture(draws: np.ndarray) -> list[np.ndarray]:
    """Return (3, d) weights, means and precisions of the components of a mixture for (m, d) draws.

    The fit is maximum likelihood by EM, from clusters of what is near the median or far out.
    """
    middle = np.median(draws, axis=0)
    size = np.maximum(np.median(np.abs(draws - middle), axis=0), np.finfo(float).tiny)
    seed = make_generator("clusters of a prior sample")
    _, labels = kmeans2(np.arcsinh((draws - middle) / size), NUM_FITTED, minit="++", seed=seed)
    members = np.eye(NUM_FITTED)[labels]
    for _ in range(NUM_FIT_STEPS):
        totals = members.sum(axis=0) + MIN_FITTED_DRAWS
        means = (members.T @ draws + MIN_FITTED_DRAWS * middle) / totals[:, None]
        off = np.square(draws[:, None] - means)
        variances = np.einsum("mc,mcd->cd", members, off) + MIN_FITTED_DRAWS * np.square(size)
        variances /= totals[:, None]
        log_terms = -0.5 * (off / variances + np.log(variances)).sum(axis=2)
        members = normalise_weights(log_terms + np.log(totals))[0]
    weights = np.broadcast_to((totals / totals.sum())[:, None], means.shape)
    return list(np.stack([weights, means, 1 / variances], axis=1))


def estimate_moments(problem: ContextualProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the (d,) mean and the (d, d) covariance of draws of a prior."""
    shape = NUM_STAND_IN_DRAWS, problem.num_features
    draws = problem.prior.sample(make_generator("prior sample"), shape)
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    if problem.offers("arm_log_density"):
        covariance = np.diag(np.diag(covariance))
    return draws.mean(axis=0), covariance
