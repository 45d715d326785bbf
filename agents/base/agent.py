"""The act/observe contract that every agent keeps, and what all of ours share.

A Bayesian agent is given a `BanditProblem` and then sees only actions and rewards. What it keeps of
them is its evidence, see `agents.base.evidence`; the cost of a step never grows with t.

Notation: K arms, N lanes (replications run in lockstep). Batch axis first.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from numpy.random import SeedSequence

from agents.base.conjugacy import REFERENCE, reference_prior
from agents.base.decisions import Decider
from agents.base.evidence import MAX_REWARDS, CountsAndSums, WindowedCountsAndSums, view_read_only
from agents.base.saved import copy_with_arms, describe_agent, write_agent_file
from agents.base.threads import atomic
from bandit_gym.checks import (
    as_array,
    check_actions,
    check_arm_order,
    check_features,
    check_file,
    check_integer,
    check_mask,
    check_played,
    check_real,
    check_rewards,
    check_squares,
    check_statistics,
    check_weights,
    find_problem,
    message,
)
from bandit_gym.priors import make_prior
from bandit_gym.problem import BanditProblem, ContextualProblem, check_problem

if TYPE_CHECKING:
    from bandit_gym.logs import Log


def with_prior(problem: Any, prior: Any) -> BanditProblem:
    """Return the problem with another prior.

    Args:
        problem: likelihood and prior.
        prior: an object, a dict, or "reference".
    """
    check_problem(problem)
    is_reference = isinstance(prior, str) and prior == REFERENCE
    if is_reference and not isinstance(problem, ContextualProblem):
        return replace(problem, prior=reference_prior(problem.likelihood))
    return replace(problem, prior=make_prior(prior))


def make_evidence(problem: BanditProblem, discount: float, window: int | None) -> Any:
    """Return the kind of evidence that a problem and the options of an agent ask for.

    Args:
        problem: whose rewards are kept, in rows if arms have features.
        discount: in (0, 1].
        window: w >= 1, or None.
    """
    discount = check_real("discount", discount, above=0.0, maximum=1.0)
    if window is not None:
        window = check_integer("window", window, minimum=1, maximum=MAX_REWARDS)
        if discount < 1.0:
            raise ValueError(message("window", "be None beside a discount", window))
    keeps_squares = problem.likelihood.needs_squares
    if isinstance(problem, ContextualProblem):
        from agents.base.rows import ForgettingRows, Rows  # bring numba

        if discount == 1.0 and window is None:
            return Rows(problem.num_features, keeps_squares)
        return ForgettingRows(problem.num_features, keeps_squares, discount, window)
    if window is not None:
        return WindowedCountsAndSums(problem.num_arms, window, keeps_squares=keeps_squares)
    return CountsAndSums(problem.num_arms, discount, keeps_squares=keeps_squares)


class AgentMeta(type):
    """Lets every agent take an environment for a problem, and a `prior` in place of the problem's.

    If your own constructor takes a `prior`, it receives the argument unchanged.
    """

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the class takes, which is not what `__call__` does."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=[*signature.parameters.values()][1:])

    def __call__(cls, problem: Any = None, *others: Any, **options: Any) -> Any:
        """Find the problem and its prior before any constructor reads them; keep the options."""
        if isinstance(problem, gym.Env | gym.vector.VectorEnv):
            problem = find_problem(problem) or problem
        names = [*cls.__signature__.parameters]
        if "prior" not in names and (prior := options.pop("prior", None)) is not None:
            problem = with_prior(problem, prior)
        if isinstance(problem, ContextualProblem) and not cls.takes_features:  # type: ignore[attr-defined]
            condition = f"have no features for {cls.__name__}"
            remedy = "RacingThompson, Greedy, BayesUCB and LinUCB are among those that take them"
            raise ValueError(message("problem", condition, problem, remedy))
        needs_squares = isinstance(problem, BanditProblem) and problem.likelihood.needs_squares
        if needs_squares and not cls.takes_squares:  # type: ignore[attr-defined]
            condition = f"have rewards of known std for {cls.__name__}, which has no takes_squares"
            remedy = "ExactThompson, BayesUCB, Greedy and TopTwoThompson are among those that have"
            raise ValueError(message("problem", condition, problem.likelihood, remedy))
        kept = copy_option(dict(zip(names[1:], others, strict=False)) | options)
        agent = super().__call__(problem, *others, **options)
        agent._options = kept
        return agent


def copy_option(value: Any) -> Any:
    """Return dicts and lists anew, and lists for arrays, whose text is not everywhere equal."""
    if isinstance(value, dict):
        return {name: copy_option(each) for name, each in value.items()}
    if isinstance(value, list):
        return [copy_option(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


class Agent(Decider, metaclass=AgentMeta):
    """A learner that acts on N lanes at once and learns from what each lane's arm paid.

    Subclasses say how to choose (`_scores`, or `_choose` and `_action_probabilities`) and, where
    sufficient statistics are not all they remember, how to update with the data (`_restart`,
    `_learn`). Lanes are independent episodes that happen to be computed together; `reset_lanes` and
    the `mask` of `observe` serve vector environments whose episodes end at different times.
    Threads may share an agent: each public method is one step.

    Arguments:
        problem: what the agent is given, or an environment that has it, wrapped or vectorised.
        prior: an object or a dict, used in place of the problem's; or "reference", Table 1's. Where
            that is improper (Gaussian, Poisson rewards) arms that were never pulled come first, in
            random order, and agents that draw from the prior refuse it.
        discount: in (0, 1], by which each reward multiplies the lane's earlier counts and sums.
        window: w >= 1, to keep the last w rewards of a lane alone; None keeps all.

    Attributes:
        problem: likelihood, prior and number of arms, all that the agent knows.
        num_envs: N, or None for a single run, in which `act` returns an `int`.
        evidence: what it keeps of its data.
        has_exact_probabilities: see `Decider`, as `takes_available`, `takes_values`, `takes_top`.
        takes_features: whether it takes a `ContextualProblem`, of arms with features; those that
            are shown for a decision are `evidence.decision_features`, (N, K, d).
        takes_weights: whether rewards may have weights: not of rules that need whole numbers.
        takes_squares: whether it plays rewards of unknown deviation; `evidence.squares` then has
            (N, K) squares of rewards around their arm's average.
    """

    takes_features: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    takes_squares: ClassVar[bool] = False
    state_names: ClassVar[tuple[str, ...]] = ("evidence", "_diagnostics")
    _options: dict[str, Any]

    def __init__(
        self, problem: BanditProblem, *, discount: float = 1.0, window: int | None = None
    ) -> None:
        self.problem = check_problem(problem)
        self.evidence = make_evidence(self.problem, discount, window)
        self._has_features = isinstance(problem, ContextualProblem)
        self._num_arms = self.problem.num_arms

    def __repr__(self) -> str:
        """Write the call that builds another one like it."""
        options = [f"{name}={value!r}" for name, value in self.options().items()]
        return f"{type(self).__name__}({', '.join([repr(self.problem), *options])})"

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that it was built with; defaults are left out."""
        return copy_option(self._options)  # type: ignore[no-any-return]

    @property
    def lane_counts(self) -> np.ndarray:
        """(N, K) pulls of each arm so far, N = 1 for a single run; with features, of each row.

        It is a view, which changes as the agent learns; `counts` is a copy.
        """
        return view_read_only(self.evidence.counts)

    @property
    def lane_sums(self) -> np.ndarray:
        """(N, K) total reward of each arm so far, in reward units, N = 1 for a single run."""
        return view_read_only(self.evidence.sums)

    @property
    @atomic
    def counts(self) -> np.ndarray:
        """(N, K) pulls of each arm so far; (K,) for a single run. Arms with features have none."""
        return self._of_arms("counts", self.lane_counts)

    @property
    @atomic
    def sums(self) -> np.ndarray:
        """(N, K) total reward of each arm so far; as `counts`."""
        return self._of_arms("sums", self.lane_sums)

    def _of_arms(self, name: str, totals: np.ndarray) -> np.ndarray:
        """Return (N, K) totals, but not before `reset`, nor of arms that are others each time."""
        self._require_reset()
        if self._has_features:
            raise TypeError(message(name, "be asked where arms have no features", self.problem))
        own = view_read_only(totals.copy())  # which stays as it is while the agent learns
        return own[0] if self.num_envs is None else own

    @property
    def max_lanes(self) -> int:
        """How many lanes it can be asked for, with what it keeps of each."""
        return self.evidence.max_lanes

    @atomic
    def reset(self, num_envs: int | None = None, seed: int | SeedSequence | None = None) -> None:
        """Forget everything and prepare for `num_envs` lanes.

        Args:
            num_envs: N >= 1 lanes, or None for a single run with scalar actions.
            seed: makes the agent's own generator. An int is mixed with the class name, so that
                neither an environment nor another kind of agent with the same seed shares the
                stream. None keeps the present generator, or makes one from fresh entropy.

        Raises:
            ValueError: if num_envs is not positive or the seed is negative.
        """
        self._start_lanes(num_envs, seed)
        self.evidence.start(self.num_lanes)
        self._lanes = np.arange(self.num_lanes)
        self._diagnostics = {}
        self._start()

    @atomic
    def reset_lanes(self, mask: np.ndarray) -> None:
        """Forget the lanes where `mask` is True and leave the others, and the generator, alone.

        Args:
            mask: (N,) bool, True where an episode has ended.
        """
        self._require_reset()
        mask = check_mask("mask", mask, self.num_lanes)
        self.evidence.restart(mask)
        if mask.any():
            self._restart(mask)

    def observe(
        self,
        action: Any,
        reward: Any,
        mask: np.ndarray | None = None,
        *,
        observation: Any = None,
        weight: Any = None,
    ) -> None:
        """Learn what each lane's pulled arm paid. Logged data are as good as the agent's own.

        Nothing changes unless everything is valid.

        Args:
            action: (N,) arms pulled, or one arm for a single run.
            reward: (N,) rewards, or one reward for a single run.
            mask: (N,) bool, the lanes to update; the others' actions and rewards are not read.
            observation: the features that the rewards are for, where the problem has features:
                (N, K, d), or (N, d) of the arms pulled; (K, d) or (d,) for a single run; or the
                visitors' numbers, as for `act`. None is the last `act`'s, which serve one reward
                of each lane.
            weight: (N,) or one number above 0, such as an inverse propensity: a reward of weight 3
                is three equal ones, but one step of a discount and one place in a window. None is
                1.

        Raises:
            gymnasium.error.InvalidAction: if an action is not an arm.
            TypeError: if features are needed, and there are none, or the agent takes no weights.
            ValueError: if a weight is not above 0; if a reward is NaN, infinite or impossible under
                the likelihood, or above 1e150 in size, of which sums might not be finite.
        """
        with self._lock:
            self._require_reset()
            if mask is not None:
                mask = check_mask("mask", mask, self.num_lanes)
            features, num_arms = None, self._num_arms
            if self._has_features:
                if observation is not None:
                    observation = self.problem.place(observation, self.num_envs)  # type: ignore[attr-defined]
                features = self.evidence.find_features(observation, self.num_envs, mask)
                if features.ndim == 3:
                    num_arms = features.shape[1]
                elif self.problem.layout is None:  # type: ignore[attr-defined]  # any number
                    num_arms = sys.maxsize
            actions = check_actions(action, num_arms, self.num_envs, mask=mask)
            rewards = check_rewards(reward, self.problem.likelihood, self.num_envs, mask)
            num_lanes = self.num_lanes
            weights = None if weight is None else self._check_weights(weight, num_lanes, mask)
            lanes, played = self._lanes, actions if features is None else features
            if played.ndim == 3:
                if observation is None and self._available:
                    check_played(actions, self._available[0], mask)
                played = played[lanes, actions]
            if mask is not None:
                lanes, actions, rewards = lanes[mask], actions[mask], rewards[mask]
                played = played[mask]
                weights = None if weights is None else weights[mask]
            self.evidence.add(lanes, played, rewards, weights)
            if features is not None and observation is None:
                self.evidence.mark_rewarded(lanes)
            self._learn(lanes, actions, rewards)

    def _check_weights(self, weights: Any, size: int, mask: np.ndarray | None = None) -> np.ndarray:
        """Return (R,) weights of so many rewards, or refuse them."""
        if not (self.takes_weights and self.can_warm_start):
            self._refuse_option("weight", weights, "which takes no weights")
        return check_weights(weights, size, mask)

    @atomic
    def warm_start(
        self, counts: Any, sums: Any, *, observation: Any = None, squares: Any = None
    ) -> None:
        """Add earlier data, given as sufficient statistics, to every lane.

        It adds to what is known, so it also serves feedback that comes late and in batches. It does
        not check whether the data were given before, nor which rewards made up the sums.

        Args:
            counts: (K,) or (N, K) number of earlier pulls of each arm; with features, (R, K) of
                each arm in R contexts, or (R,) of R rows.
            sums: total reward of those pulls, in reward units; of the shape of counts.
            observation: where the problem has features, those of the contexts, (R, K, d), or (R, d)
                of rows. If it has a layout, the numbers of contexts will do, (R, p).
            squares: (K,) or (N, K) sums of the squares of these rewards, where the std of rewards
                is None, and only there.

        Raises:
            TypeError: if features are needed, and there are none, or the posterior learns from
                single rewards.
            ValueError: if the statistics are impossible under the likelihood, or features are NaN,
                infinite or of another shape; names the arm or the row.
        """
        self._refuse_learner("warm_start")
        self._require_reset()
        rule = self.problem.likelihood
        if not self._has_features:
            for name, given in (("counts", counts), ("sums", sums), ("squares", squares)):
                check_arm_order(name, given, self._num_arms)
            totals = check_statistics(counts, sums, rule, self.lane_counts.shape)
            centred = check_squares(squares, *totals, self.problem)
            self.evidence.add_totals(*totals, *([] if centred is None else [centred]))
            return
        if rule.needs_squares:
            condition = "be left out where arms have features and the std of rewards is None"
            remedy = "observe each reward with its observation"
            raise TypeError(message("warm_start", condition, counts, remedy))
        size = len(np.atleast_1d(as_array(counts)))  # type: ignore[arg-type]
        if not size:
            return
        features = self._check_rows(observation, size)
        shape = features.shape[:-1]
        for name, given in (("counts", counts), ("sums", sums)):
            if getattr(as_array(given), "shape", ()) != shape:
                condition = f"have shape {shape}, as the features of the observation"
                raise ValueError(message(name, condition, given))
        axes = ("row",) if len(shape) == 1 else ("row", "arm")
        totals = check_statistics(counts, sums, rule, shape, axes)
        check_squares(squares, *totals, self.problem)
        is_known = totals[0] > 0
        self.evidence.add_totals(features[is_known], *(each[is_known] for each in totals))

    def _check_rows(self, observation: Any, size: int, arms: Any = None) -> np.ndarray:
        """Return (R, K, d) or (R, d) features of R rows, placed by the layout; see `place`."""
        problem: Any = self.problem
        placed = problem.place(observation, size, arms)
        return check_features(placed, problem.num_features, size, takes_played=True)

    @atomic
    def observe_log(self, log: Log, *, observation: Any = None, weights: Any = None) -> None:
        """Learn all rows of a log in every lane, as if each had been observed in order.

        Nothing changes unless all rows are valid.

        Args:
            log: see `bandit_gym.logs.read_log`; its arms, in order, are the agent's.
            observation: where the problem has features, those of each row: (t, K, d), such as
                `disjoint(log.features, num_arms)`, or (t, d) of the arms pulled. If it has a
                layout, (t, p) numbers of visitors will do; None is then the log's own.
            weights: (t,) of the rewards, such as a column of a table, see `observe`; None is 1.

        Raises:
            TypeError: if it is no log, or features are needed, and there are none.
            ValueError: if the log has another number of arms, a reward is impossible, or features
                have another shape, or are NaN or infinite.
        """
        self._require_reset()
        if not hasattr(log, "num_arms"):
            raise TypeError(message("log", "be a Log, such as read_log returns", log))
        if log.num_arms != self.problem.num_arms:
            raise ValueError(message("log", f"have {self.problem.num_arms} arms", log.num_arms))
        all_rewards = check_rewards(log.rewards, self.problem.likelihood, len(log))
        weights = None if weights is None else self._check_weights(weights, len(log))
        rows: np.ndarray = log.actions
        if self._has_features:
            problem: Any = self.problem
            if problem.layout is not None and observation is None:
                observation = log.features
            rows = self._check_rows(observation, len(log), log.actions)
            if rows.ndim == 3:
                if rows.shape[1] != log.num_arms:
                    condition = f"have the log's {log.num_arms} arms"
                    raise ValueError(message("observation", condition, rows.shape[1]))
                rows = rows[np.arange(len(log)), log.actions]
        elif self.evidence.is_cumulative and self.can_warm_start and weights is None:
            if self.problem.likelihood.needs_squares:
                self.evidence.add_totals(log.counts, log.sums, log.squares)
            else:
                self.warm_start(log.counts, log.sums)
            return
        for i, reward in enumerate(all_rewards):
            actions = np.full(self.num_lanes, log.actions[i])
            rewards = np.full(self.num_lanes, reward)
            weight = None if weights is None else np.full(self.num_lanes, weights[i])
            played = np.repeat(rows[i : i + 1], self.num_lanes, 0)
            self.evidence.add(self._lanes, played, rewards, weight)
            self._learn(self._lanes, actions, rewards)

    @atomic
    def with_arms(self, num_arms: int, prior: Any = None) -> Self:
        """Return an agent for more arms that has observed all that this one has.

        It goes on in this one's place, with a copy of its data in all lanes and of its generator.
        New arms come last.

        Args:
            num_arms: K of the new agent, at least as many as now.
            prior: of the new arms, an object or a dict; None for the present one, which then may
                have no parameters of each arm. With features see `ContextualProblem.with_arms`.

        Raises:
            TypeError: if the posterior learns from single rewards, or a class of one's own does not
                say in `state_names` what its objects remember.
            ValueError: if there are fewer arms, a prior of the new arms is needed and there is
                none, or it does not go with the present one; or if the last decision was on
                features in blocks of which the problem does not know, as it has no layout.
        """
        self._refuse_learner("with_arms")
        return copy_with_arms(self, num_arms, prior)

    def save(self, path: str | Path) -> None:
        """Write all that this agent is into a file, from which `agents.load` makes it again.

        The file has JSON and arrays of numbers; there is no code in it. What is loaded goes on bit
        for bit as this one does, with the same versions of Python and its packages.

        Args:
            path: of the file. One that is there is replaced.

        Raises:
            OSError: if it cannot be written.
            TypeError: if an option or a part of the state cannot be written, or a class of one's
                own does not say in `state_names` what its objects remember.
        """
        path = check_file("path", path)
        with self._lock:
            content = describe_agent(self)
        write_agent_file(path, content)

    @property
    def can_warm_start(self) -> bool:
        """Whether totals without order say all that single rewards do.

        So it is where nothing else is learned, or where a class of one's own takes them itself.
        """
        kind = type(self)
        return kind._learn is Agent._learn or kind.warm_start is not Agent.warm_start

    def posterior(self, observation: Any = None) -> Any:
        """Return what is known of the means now; what is observed later does not change it.

        Asking moves neither the agent nor its generator.

        Args:
            observation: the features of the arms whose means are asked for, as for `act`; without
                them, only the coefficients can be asked.

        Returns:
            An `agents.snapshots.snapshot.PosteriorSnapshot`.

        Raises:
            TypeError: if the agent has no prior.
        """
        self._require_reset()
        name = type(self).__name__
        raise TypeError(f"posterior must be asked of an agent with a prior, got {name}.")

    def _refuse_learner(self, name: str) -> None:
        """Refuse what goes by totals, where a posterior learns from single rewards."""

    def _start(self) -> None:
        """Prepare what a subclass remembers beside the statistics for `num_lanes` lanes."""
        self._restart(np.ones(self.num_lanes, dtype=bool))

    def _restart(self, mask: np.ndarray) -> None:
        """Forget what a subclass remembers beside the statistics, in the masked lanes."""

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Follow one reward in each of the given lanes, beside counts and sums."""
