"""Thompson's rule: pull the arm that is best in one draw of any posterior; and the top-two rule.

`agents.racing_thompson` has the agent that draws by importance sampling.

Notation: K arms, N lanes, P particles.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from agents.base import Agent
from agents.numerics.choices import argmax_probabilities, draw_arms, random_argmax
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.base import Belief, ExactPosterior, FeatureBelief
from bandit_gym.checks import check_integer, check_real, message
from bandit_gym.problem import BanditProblem, ContextualProblem, check_problem

MIN_DECISIONS_PER_ARM = 5
"""From so many on, probabilities of all arms cost less than a draw for each decision."""


class Thompson(PosteriorAgent):
    """Draw the means from a posterior and pull the arm whose draw is best (Algorithm 1).

    `ExactThompson`, `SMCThompson` and `RacingThompson` are this rule on posteriors that they name.

    Arguments:
        problem: likelihood and prior.
        posterior: "exact", "smc", "racing", or "laplace" where arms have features; one of your
            own as `module:name`, a dict of such a name and options, or an object; see
            "The posterior of an agent" in the docs.
        discount: in (0, 1]; each reward multiplies the weight of the lane's earlier ones by it, so
            that about the last 1 / (1 - discount) of them matter: for environments that change. The
            prior stays as it is.
        window: w >= 1, to keep the last w rewards of a lane and nothing older; None keeps all.
            Totals of a `warm_start`, which have no order, stay.

    References:
        Thompson (1933); Chapelle and Li (2011).
    """

    uses_draws = True
    takes_features = True
    takes_available = True
    takes_values = True
    takes_top = True
    takes_squares = True

    def _choose_top(self, top: int) -> np.ndarray:
        belief = self.belief()
        if isinstance(belief, FeatureBelief):  # whose means may be equal by rounding
            draws = belief.posterior.draw_predictors(self.rng, belief.features)
        else:
            draws = belief.sample(self.rng)
        draws = self._hide(draws)
        return np.lexsort((self.rng.random(draws.shape), -draws))[:, :top]

    def _position_probabilities(self, top: int) -> np.ndarray:
        return self.belief().position_probabilities(top, *self._available)

    def _action_probabilities(self) -> np.ndarray:
        probabilities = self.belief().best_arm_probabilities(*self._available)
        return self._posterior.favour_unpulled(probabilities, *self._available)

    def _generator_kept(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the generator alone where nothing is drawn: a sixth of the time of a propensity."""
        is_own = type(self)._action_probabilities is Thompson._action_probabilities
        is_formula = is_own and isinstance(self._posterior, ExactPosterior)
        return nullcontext() if is_formula else super()._generator_kept()

    def _find_many_probabilities(self, features: np.ndarray) -> np.ndarray:
        if not self._posterior.decides_many or type(self)._choose is not Thompson._choose:
            return super()._find_many_probabilities(features)
        return self._action_probabilities()

    def _choose(self) -> np.ndarray:
        return self.belief().draw_best(self.rng, *self._available)

    def _choose_many(self, size: int, features: np.ndarray | None) -> np.ndarray:
        """Return (n,) arms: by probabilities if these are exact, with features by one pool."""
        posterior = self._posterior
        if type(self)._choose is not Thompson._choose:
            is_fast = False
        elif features is not None:
            is_fast = posterior.decides_many and not self._prices
        elif self._prices:
            is_fast = posterior.has_exact_priced_probabilities
        else:
            is_fast = posterior.has_exact_probabilities
        if not is_fast or (features is None and size < MIN_DECISIONS_PER_ARM * self._num_arms):
            return super()._choose_many(size, features)
        if features is None:
            probabilities = self._action_probabilities()
            actions = draw_arms(self.rng, np.broadcast_to(probabilities, (size, self._num_arms)))
        else:
            actions = self._choose()
        shared = self._find_diagnostics().items()
        self._diagnostics = {name: np.broadcast_to(values, (1, size)) for name, values in shared}
        return actions


class SlidingWindow(Thompson):
    """Thompson sampling from the last w rewards of each lane (SW-TS).

    Older rewards leave the statistics one by one, so that the prior is all that is known of an arm
    that was not pulled for w steps. Other rules have a `window` too: `UCB1(problem, window=100)`
    is SW-UCB.

    Arguments:
        problem: likelihood and prior.
        window: w >= 1.
        posterior: see `Thompson`.

    References:
        Garivier and Moulines (2011), SW-UCB; Trovo et al. (2020), "Sliding-window Thompson sampling
        for non-stationary settings".
    """

    def __init__(
        self, problem: BanditProblem, *, window: int = 100, posterior: Any = "exact"
    ) -> None:
        super().__init__(problem, posterior=posterior, window=window)


class ExactThompson(Thompson):
    """Draw the means from their posterior and pull the arm whose draw is best.

    Methods:
        conjugate: the prior is conjugate to the likelihood, so that the posterior has a name.
        mixture: the prior is a `HierarchicalBeta` or `SharedMixture`, or offers
            `shared_components`: all arms follow the same one of several priors, in each of which
            they are independent. A component is drawn in proportion to its evidence, then all arms
            from its posterior, conjugate or by tables (see `agents.posteriors.mixture`).
        grid: the prior is independent across arms and offers `arm_log_density(means (..., K)) ->
            (..., K)`, and `arm_support(num_arms) -> (K, 2)` where the means have a smaller range
            than the likelihood allows. Each arm's posterior is kept as a table, see
            `agents.posteriors.grid`, 1.3 to 2 kB per arm and lane for a smooth prior and up to
            110 kB for a rough one. A mixture has tables for each component.
        gibbs: a `TruncatedMultivariateNormal` prior. Each lane keeps one Markov chain, started from
            a draw of the prior. Each `act` advances it by 32 moves of elliptical slice sampling
            under the current data (see `agents.posteriors.chains`). So draws of one lane are
            correlated in time.

    Where arms have features, rewards are to be Gaussian and the prior conjugate, and so is the
    posterior, see `agents.regression.gaussian` and `agents.regression.student`.

    Arguments:
        problem: likelihood and prior.
        prior: see `Agent`. With "reference" this is the paper's "Thompson" baseline.
        method: one of the above, or "auto", which takes the first that can treat the problem; the
            attribute `method` then says which.
        discount: in (0, 1], see `Thompson`. Not for gibbs.
        window: w >= 1, see `Thompson`. Not for gibbs.

    Attributes:
        method: "conjugate", "mixture", "grid" or "gibbs".

    Raises:
        ValueError: if the method cannot treat the problem's prior, or the prior does not integrate;
            from `act`, if the data have probability 0 under the prior.

    References:
        Thompson (1933); Chapelle and Li (2011).
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        method: str = "auto",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        posterior = {"name": "exact", "method": method}
        super().__init__(problem, posterior=posterior, discount=discount, window=window)
        self.method: str = self._posterior.method


class SMCThompson(Thompson):
    """For each decision draw a vector of means from weighted particles, and pull its best arm.

    The paper (its Section 3) draws P particles from the prior, once, and only ever reweights them:
    fewer and fewer carry the weight, and the agent ends up certain of an arm for no good reason.
    `agents.posteriors.particles` describes the remedies. Where arms have features, particles are
    their coefficients, see `agents.regression.particles`.

    Arguments:
        problem: likelihood and prior.
        num_particles: P from 1 to 10 million. Without resampling also a sequence: entry t is how
            many of the particles take part after t pulls, or after what a discount or a window
            leaves of them; the last entry holds from there on.
            Twice as many halve the squared distance of a run's distribution from the posterior's,
            and cost 1.5 to 2 times as much. With 500 the distance (total variation, ten arms, mean
            of 50 runs after 30, 300 and 1,000 steps) is 0.014 under Beta(1, 1), 0.018 under a
            truncated normal and 0.027 in `DependentPriorBandit-v0`, for 37, 33 and 176 microseconds
            a step of one of 50 lanes; with 1,000 it is 0.009, 0.013 and 0.019.
        resampling: "systematic" renews a population when its effective sample size falls below
            P / 2; "never" is the paper's.
        move: "random-walk" follows each resampling with 3 sweeps of Metropolis steps, by turns
            along the principal axes of the population and arm by arm; with features, with steps of
            all coefficients until they have moved far, 100 at most. "none" leaves the copies where
            they are. Without moves, resampling only delays the collapse.
        discount: in (0, 1], for environments that change; without features. Each new reward
            multiplies the weight of the lane's earlier rewards by it. Only moves can restore values
            that resampling lost.
        window: w >= 1, to keep the last w rewards of a lane alone, without features; None keeps
            all.

    Diagnostics: `num_samples` (particles taking part in a lane's decision), `effective_sample_size`
    (of the lane's poorest population), `acceptance` (share of the last sweep's proposals that were
    accepted, in the population with the fewest; 1 before it), `is_degenerate` (every particle of
    some population has likelihood 0, so all get equal weight), `doubts` and `is_unreliable` (the
    particles may be worse than as many independent draws: few of them or of their ancestors carry
    the weight, they may miss a part of the prior, or too many data came at once).

    References:
        Gopalan, Mannor and Mansour (2014); Chopin (2002); Del Moral, Doucet and Jasra (2006).
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        num_particles: int | Sequence[int] = 500,
        resampling: str = "systematic",
        move: str = "random-walk",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        options = {"num_particles": num_particles, "resampling": resampling, "move": move}
        posterior = {"name": "smc", **options}
        super().__init__(problem, posterior=posterior, discount=discount, window=window)
        self.num_particles = num_particles

    @classmethod
    def paper(
        cls, problem: BanditProblem, *, num_particles: int | Sequence[int] = 1000, prior: Any = None
    ) -> SMCThompson:
        """Return the paper's: particles that are weighed, and neither resampled nor moved.

        Args:
            problem: likelihood and prior.
            num_particles: see the class. The paper gives SMC as many particles as Racing drew
                samples at the same step.
            prior: see `Agent`.
        """
        options = {"resampling": "never", "move": "none", "prior": prior}
        return cls(problem, num_particles=num_particles, **options)


class LaplaceThompson(Thompson):
    """Draw the coefficients from the Laplace approximation and pull the arm that is best under it.

    The approximation is normal: its mean is the posterior's mode, its precision the curvature
    there. This is what is deployed for clicks. `RacingThompson` takes its error away.

    Arguments:
        problem: likelihood, prior and the number of features.
        covariance: "full"; or "diagonal", for the diagonal of the precision alone, as in the paper:
            coefficients are drawn independently of each other.
        discount: see `Thompson`.
        window: see `Thompson`.

    References:
        Chapelle and Li (2011), "An empirical evaluation of Thompson sampling", Algorithm 3.
    """

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        covariance: str = "full",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        require_features(type(self), problem)
        posterior = {"name": "laplace", "covariance": covariance}
        super().__init__(problem, posterior=posterior, discount=discount, window=window)


def require_features(kind: type[Agent], problem: Any) -> None:
    """Refuse problems without features, for an agent that decides on nothing else."""
    if not isinstance(check_problem(problem), ContextualProblem):
        condition = f"be a ContextualProblem for {kind.__name__}, which decides on features"
        raise ValueError(message("problem", condition, problem))


class TopTwoThompson(PosteriorAgent):
    """Pull the best arm of a draw with probability beta, otherwise the best of another arm's draw.

    It searches for the best arm rather than for reward: about a share 1 - beta of all pulls goes to
    other arms for ever. Recommend the arm with the largest `posterior().mean()`.

    Once an arm is almost surely the best, draws with another winner are rare. After `max_draws`
    failed draws the challenger is that of T3C (Shang et al. 2020): the arm with the smallest
    (mean_leader - mean_i) / sqrt(var_leader + var_i).

    Arguments:
        problem: likelihood and prior.
        beta: share of pulls of the leader, in (0, 1).
        max_draws: of a challenger, before it is looked for without draws.
        posterior: see `Thompson`.
        discount: in (0, 1], see `Thompson`.
        window: w >= 1, likewise.

    References:
        Russo (2020), "Simple Bayesian algorithms for best-arm identification", TTTS.
    """

    uses_draws = True
    takes_features = True
    takes_available = True
    takes_values = True
    takes_squares = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        beta: float = 0.5,
        max_draws: int = 30,
        posterior: Any = "exact",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        self.beta = check_real("beta", beta, above=0.0, below=1.0)
        self.max_draws = check_integer("max_draws", max_draws, minimum=0)
        super().__init__(problem, posterior=posterior, discount=discount, window=window)

    def _choose(self) -> np.ndarray:
        posterior = self.belief()
        leaders = posterior.draw_best(self.rng, *self._available)
        actions, needs_challenger = leaders.copy(), self.rng.random(self.num_lanes) >= self.beta
        for _ in range(self.max_draws):
            if not needs_challenger.any():
                return actions
            draws = posterior.draw_best(self.rng, *self._available)
            is_found = needs_challenger & (draws != leaders)
            actions[is_found] = draws[is_found]
            needs_challenger &= ~is_found
        nearest = random_argmax(self.rng, self._hide(_closeness(posterior, leaders)))
        return np.where(needs_challenger, nearest, actions)

    def _action_probabilities(self) -> np.ndarray:
        """Return sum_i p_i (beta e_i + (1 - beta) c_i), c_i those of leader i's challenger.

        Of m draws the first other than i is arm j with probability p_j (1 - p_i^m) / (1 - p_i).
        """
        posterior = self.belief()
        best = posterior.best_arm_probabilities(*self._available)
        best = self._posterior.favour_unpulled(best, *self._available)
        with np.errstate(invalid="ignore"):
            num_draws = np.where(best < 1, (1 - best**self.max_draws) / (1 - best), 0.0)
        drawn = best * ((best * num_draws).sum(axis=1, keepdims=True) - best * num_draws)
        no_challenger = best ** (self.max_draws + 1)
        for arm in range(best.shape[1]):
            closeness = _closeness(posterior, np.full(len(best), arm))
            nearest = argmax_probabilities(self._hide(closeness))
            drawn += no_challenger[:, arm, None] * nearest
        return self.beta * best + (1 - self.beta) * drawn


def _closeness(posterior: Belief, leaders: np.ndarray) -> np.ndarray:
    """Return (N, K) costs of taking an arm for the (N,) leaders; -inf for the leaders."""
    mean, variance = posterior.mean(), np.square(posterior.std())
    lanes = np.arange(len(leaders))
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = mean[lanes, leaders][:, None] - mean
        scores = gaps / np.sqrt(variance[lanes, leaders][:, None] + variance)
    scores = np.nan_to_num(scores, nan=0.0)  # of infinite moments, which are uninformative
    scores[lanes, leaders] = np.inf
    return -scores
