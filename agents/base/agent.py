"""The act/observe contract that every agent keeps, and what all of ours share.

A Bayesian agent is given a `BanditProblem` and then sees only actions and rewards. What it keeps of
them is its evidence, see `agents.base.evidence`; the cost of a step never grows with t.

Notation: K arms, N lanes (replications run in lockstep). Batch axis first.
"""

from __future__ import annotations

import copy
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.random import SeedSequence

from agents.base.conjugacy import REFERENCE, reference_prior
from agents.base.evidence import make_evidence, view_read_only
from agents.base.lanes import Lanes
from agents.base.saved import describe_agent, list_state_names, write_agent_file
from agents.base.threads import atomic
from agents.numerics.choices import (
    argmax_probabilities,
    check_floor,
    draw_arms,
    hide_arms,
    raise_to_floor,
    random_argmax,
)
from bandit_gym.checks import (
    as_array,
    check_actions,
    check_available,
    check_choices,
    check_features,
    check_file,
    check_integer,
    check_mask,
    check_per_arm,
    check_played,
    check_probabilities,
    check_returned,
    check_rewards,
    check_squares,
    check_statistics,
    check_weights,
    find_problem,
    message,
)
from bandit_gym.contexts import find_layout
from bandit_gym.doubts import Doubt
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


IF_ALL_ARMS = "a class that decides among all arms has takes_available = False"
"""What to do about a choice of one's own that does not keep to a mask."""


MIN_STATED_ERROR = 1e-6
"""Of probabilities that are computed without draws."""


class Decision(NamedTuple):
    """What an agent did, and the probabilities that it did it with: what a log keeps.

    Attributes:
        actions: (N,) int64 arms, or one `int` for a single run; (n,) of n decisions.
        propensities: probabilities of the actions, of their shape.
        probabilities: (N, K) of all arms, (K,) for a single run; (n, K) of n decisions.
    """

    actions: Any
    propensities: Any
    probabilities: np.ndarray


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
        agent = super().__call__(problem, *others, **options)
        agent._options = dict(zip(names[1:], others, strict=False)) | options
        return agent


class Agent(Lanes, metaclass=AgentMeta):
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
        has_exact_probabilities: whether `action_probabilities` is the distribution of the next
            `act` itself, and not one that the agent approximates.
        takes_features: whether it takes a `ContextualProblem`, of arms with features; those that
            are shown for a decision are `evidence.decision_features`, (N, K, d).
        takes_weights: whether rewards may have weights: not of rules that need whole numbers.
        takes_available: whether `act` and `action_probabilities` take a mask of available arms.
            A rule by `_scores` may say so; one by `_choose` may if this and
            `_action_probabilities` keep to `_available`.
        takes_values: whether decisions take `values` and `costs` of the arms, as those of rules do
            that ask nothing but the belief.
        takes_top: whether `act` and `action_probabilities` take `top`, for the order of one draw.
        takes_squares: whether it plays rewards of unknown deviation; `evidence.squares` then has
            (N, K) squares of rewards around their arm's average.
    """

    has_exact_probabilities: bool = True
    takes_features: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    takes_available: ClassVar[bool] = False
    takes_values: bool = False
    takes_top: ClassVar[bool] = False
    takes_squares: ClassVar[bool] = False
    state_names: ClassVar[tuple[str, ...]] = ("evidence", "_diagnostics")
    _options: dict[str, Any]

    def __init__(
        self, problem: BanditProblem, *, discount: float = 1.0, window: int | None = None
    ) -> None:
        self.problem = check_problem(problem)
        self.evidence = make_evidence(self.problem, discount, window)
        self._has_features = isinstance(problem, ContextualProblem)
        self._num_arms = self.problem.num_arms  # of the decision at hand: features may be of others
        self._diagnostics: dict[str, np.ndarray] | None = {}  # of the last `act`; None until asked
        self._available: tuple[np.ndarray, ...] = ()  # at the decision at hand: (N, K), if not all
        self._prices: tuple[np.ndarray, ...] = ()  # (N, K) values and costs at the same, if any

    def __repr__(self) -> str:
        """Write the call that builds another one like it."""
        options = [f"{name}={value!r}" for name, value in self.options().items()]
        return f"{type(self).__name__}({', '.join([repr(self.problem), *options])})"

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that it was built with; defaults are left out."""
        is_array = np.ndarray | np.generic  # which are not written the same way everywhere
        given = self._options.items()
        return {name: v.tolist() if isinstance(v, is_array) else v for name, v in given}

    @property
    def lane_counts(self) -> np.ndarray:
        """(N, K) pulls of each arm so far, N = 1 for a single run; with features, of each row."""
        return view_read_only(self.evidence.counts)

    @property
    def lane_sums(self) -> np.ndarray:
        """(N, K) total reward of each arm so far, in reward units, N = 1 for a single run."""
        return view_read_only(self.evidence.sums)

    @property
    def counts(self) -> np.ndarray:
        """(N, K) pulls of each arm so far; (K,) for a single run. Arms with features have none."""
        self._require_totals("counts")
        return self.lane_counts[0] if self.num_envs is None else self.lane_counts

    @property
    def sums(self) -> np.ndarray:
        """(N, K) total reward of each arm so far; as `counts`."""
        self._require_totals("sums")
        return self.lane_sums[0] if self.num_envs is None else self.lane_sums

    def _require_totals(self, name: str) -> None:
        """Refuse totals of arms that are other ones at each decision, and before `reset`."""
        self._require_reset()
        if self._has_features:
            raise TypeError(message(name, "be asked where arms have no features", self.problem))

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

    def act(
        self,
        observation: Any = None,
        *,
        available: Any = None,
        size: int | None = None,
        values: Any = None,
        costs: Any = None,
        floor: float = 0.0,
        top: int | None = None,
    ) -> Any:
        """Choose an arm in every lane; the posterior stays as it was.

        Args:
            observation: the (N, K, d) features of the arms, (K, d) for a single run, where the
                problem has features; K may be another at each decision. Not read otherwise. With a
                size, (n, K, d). If the problem has a layout, the numbers of each visitor will do:
                (N, p), (p,) or (n, p).
            available: (K,) or (N, K) bool, the arms that can be pulled; None for all. The agent
                decides as if there were no others at this step. Their features are not read. With
                features and a size, (K,) or (n, K).
            size: n decisions of a single run on the same data, each distributed as one alone. With
                features, `observe` then needs the observation that a reward is for.
            values: (K,) above 0, (N, K) or (n, K): the arm is played that is best by values * means
                - costs, such as prices times probabilities of a sale. None is 1.
            costs: (K,), (N, K) or (n, K), in the unit of rewards times values. None is 0.
            floor: least probability of an available arm; above 0 this is `decide`'s choice.
            top: so many arms in the order of one draw, the best first. Each of them may be
                observed; with features, with its observation.

        Returns:
            (N,) int64 arms, or one `int` for a single run; (n,) with a size; (N, top) or (top,).

        Raises:
            TypeError: if features are needed, and there are none; if `available` is not boolean; or
                if the agent's rule does not take this, values, costs or top.
            ValueError: if values are not above 0, costs not finite, or top is above the number of
                available arms or beside a size or a floor; if features have another shape, or are
                NaN or infinite; if `available` has another shape, or no arm in a lane; if there are
                lanes beside a size; or if what was chosen is no arm, which is an error of the
                agent's; names it.
        """
        prices = values, costs
        if top is not None:
            return self._act_top(observation, available, prices, size, floor, top)
        if floor != 0:
            options = {"available": available, "size": size, "values": values, "costs": costs}
            return self.decide(observation, floor=floor, **options).actions
        with self._lock:
            self._require_reset()
            if size is not None:
                return self._act_many(observation, available, size, prices)
            is_plain = available is None and values is None and costs is None
            if self._has_features or not is_plain or self._available or self._prices:
                self._show(observation, available, self.num_envs, prices)
            actions = self._decide()
            return int(actions.item(0)) if self.num_envs is None else actions

    def decide(
        self,
        observation: Any = None,
        *,
        available: Any = None,
        size: int | None = None,
        values: Any = None,
        costs: Any = None,
        floor: float = 0.0,
    ) -> Decision:
        """Choose an arm in every lane by the probabilities that are returned with it, to be logged.

        What `act` chooses has these probabilities only as nearly as the agent knows them; here arms
        are drawn from them, by one uniform number a decision. So they are exact, also where they
        are shares of draws of coefficients: given the data and these draws, which are the same for
        all visitors until rewards arrive. No arm of probability 0 is drawn, and inverse-propensity
        estimates are unbiased for policies that play only arms of positive probability.

        Logs that are to evaluate other policies want a floor, such as 0.01: after 30,000 rewards
        most visitors have arms that Thompson sampling plays once in many thousand times, if at all.
        The mean weight of "always arm k", which should be 1, was 0.12 to 7.2 in a log of 5,000 such
        visitors without a floor, and 0.91 to 1.02 with this one.

        Args:
            observation: as for `act`; (n, K, d) for a single run are n decisions.
            available: as for `act`.
            size: as for `act`.
            values: as for `act`.
            costs: as for `act`.
            floor: least probability of an available arm, from 0 to 1 by their number: max(s p,
                floor), with the one s with which probabilities sum to 1.

        Raises:
            TypeError: as `act`, and if the agent's rule has no propensities.
            ValueError: as `act`, and if an arm cannot have the floor.
        """
        with self._lock:
            self._require_reset()
            size = self._find_size(observation, size)
            has_many = size is not None and self._has_features
            num_decisions = size if has_many else self.num_envs
            self._show(observation, available, num_decisions, (values, costs))
            check_floor(floor, self._num_arms, *self._available)
            self._prepare_decision(size)
            with self._generator_kept():
                probabilities = self._copy_agent(keeps_draws=True)._find_probabilities(size)
            probabilities = raise_to_floor(probabilities, floor, *self._available)
            if size is not None and not has_many:
                probabilities = np.tile(probabilities, (size, 1))
            actions = draw_arms(self.rng, probabilities)
            propensities = np.take_along_axis(probabilities, actions[:, None], axis=1)[:, 0]
            if size is not None:
                shared = self._find_diagnostics().items()
                self._diagnostics = {name: np.broadcast_to(x, (1, size)) for name, x in shared}
                self._end_many()
            self._count_decisions(size or 1)
            if size is None and self.num_envs is None:
                return Decision(actions.item(0), propensities.item(0), probabilities[0])
            return Decision(actions, propensities, probabilities)

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
                the likelihood, or too large for the sum of an arm's rewards to remain finite.
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
                num_arms = features.shape[1] if features.ndim == 3 else sys.maxsize
            actions = check_actions(action, num_arms, self.num_envs, mask=mask)
            rewards = check_rewards(reward, self.problem.likelihood, self.num_envs, mask)
            weights = self._check_weights(weight, self.num_lanes, mask)
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

    def _check_weights(
        self, weights: Any, size: int, mask: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Return (R,) weights of so many rewards; None of 1, or refuse them."""
        if not (self.takes_weights and self.can_warm_start):
            self._refuse_weights(weights)
        return None if weights is None else check_weights(weights, size, mask)

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
            TypeError: if features are needed, and there are none.
            ValueError: if the statistics are impossible under the likelihood, or features are NaN,
                infinite or of another shape; names the arm or the row.
        """
        self._require_reset()
        rule = self.problem.likelihood
        if not self._has_features:
            totals = check_statistics(counts, sums, rule, self.lane_counts.shape)
            centred = check_squares(squares, *totals, rule)
            self.evidence.add_totals(*totals, *([] if centred is None else [centred]))
            return
        if rule.needs_squares:
            condition = "be left out where arms have features and the std of rewards is None"
            remedy = "observe each reward with its observation"
            raise TypeError(message("warm_start", condition, counts, remedy))
        size = len(np.atleast_1d(as_array(counts)))  # type: ignore[arg-type]
        features = self._check_rows(observation, size)
        shape = features.shape[:-1]
        axes = ("row",) if len(shape) == 1 else ("row", "arm")
        totals = check_statistics(counts, sums, rule, shape, axes)
        check_squares(squares, *totals, rule)
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
        weights = self._check_weights(weights, len(log))
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
        if self._has_features and self.problem.layout is None:  # type: ignore[attr-defined]
            layout = find_layout(self.evidence.decision_features)
            if layout is not None:
                condition = f"have a layout for with_arms where features are {layout}"
                remedy = f"build the agent with ContextualProblem(..., layout={layout!r})"
                raise ValueError(message("problem", condition, None, remedy))
        problem = self.problem.with_arms(num_arms, prior)
        twin: Any = type(self)(problem, **self.options())  # type: ignore[call-arg]
        twin._rng = copy.deepcopy(self.rng)
        twin.reset(self.num_envs)
        for name in {*list_state_names(self)} - {"_posterior", "_diagnostics"}:
            setattr(twin, name, copy.deepcopy(getattr(self, name)))
        if isinstance(problem, ContextualProblem):  # rows know nothing of arms
            twin.evidence.add_features(problem.num_features - self.problem.num_features)  # type: ignore[attr-defined]
        else:
            twin.evidence.add_arms(problem.num_arms - self.problem.num_arms)
        if hasattr(twin, "_resume"):
            twin._resume()
        twin._available = copy.deepcopy(self._available)
        return twin  # type: ignore[no-any-return]

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
        """Whether totals without order say all that single rewards do."""
        return type(self)._learn is Agent._learn

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

    @atomic
    def diagnostics(self) -> dict[str, Any]:
        """Return how the last `act` went, by name; nothing before the first.

        They are (N,) arrays, (n,) after an `act` with a size, or numbers for a single run, whose
        `doubts` are a `bandit_gym.doubts.Doubt`.
        """
        diagnostics: dict[str, Any]
        diagnostics = {name: values.copy() for name, values in self._find_diagnostics().items()}
        if self.num_envs is None:
            diagnostics = {name: values[0] for name, values in diagnostics.items()}
            if np.ndim(diagnostics.get("doubts", ())) == 0:
                diagnostics["doubts"] = Doubt(diagnostics["doubts"])
        return diagnostics

    def _find_diagnostics(self) -> dict[str, np.ndarray]:
        """Return the arrays of `diagnostics`; a class that has any keeps them in `_diagnostics`."""
        return self._diagnostics or {}

    @atomic
    def action_probabilities(
        self,
        observation: Any = None,
        *,
        available: Any = None,
        values: Any = None,
        costs: Any = None,
        floor: float = 0.0,
        top: int | None = None,
        return_error: bool = False,
    ) -> Any:
        """Return the probabilities of the next `act`, without moving the agent or its generator.

        If `has_exact_probabilities` is False, `act` follows these probabilities only approximately.
        Where the posterior that they are taken from is then doubted, a RuntimeWarning says so.

        Args:
            observation: as for `act`; (n, K, d) for a single run are n decisions.
            available: as for `act`; the other arms have probability 0.
            values: as for `act`.
            costs: as for `act`.
            floor: as for `act`.
            top: as for `act`; the probabilities of each place in the order are then returned.
            return_error: whether to return standard errors too. Where probabilities are shares of
                draws of coefficients, they are the spread over eight independent pools of draws,
                which takes eight times as long; where they are computed without draws, 1e-6.

        Returns:
            (N, K) probabilities of the arms, each row summing to one; (K,) for a single run, (n, K)
            for n decisions; (N, top, K) or (top, K). If errors are asked for, a pair of these and
            of the errors.

        Raises:
            TypeError: if your own class has no `_action_probabilities`.
            ValueError: if its `_action_probabilities` does not sum to one.
        """
        self._require_reset()
        copied = self._copy_agent()
        size = copied._find_size(observation, None)
        copied._show(observation, available, size or self.num_envs, (values, costs))
        check_floor(floor, copied._num_arms, *copied._available)
        with self._generator_kept():
            if top is not None:
                copied._check_top(top, size, floor or return_error)
                places = copied._position_probabilities(top)
                return places[0] if self.num_envs is None else places
            probabilities = copied._find_probabilities(size)
            probabilities = raise_to_floor(probabilities, floor, *copied._available)
            if not copied.has_exact_probabilities:
                copied._warn_of_doubts()
            answers = [probabilities]
            if return_error:
                errors = copied._find_errors(size, probabilities)
                answers.append(np.maximum(errors, MIN_STATED_ERROR))
        if size is None and self.num_envs is None:
            answers = [answer[0] for answer in answers]
        return tuple(answers) if return_error else answers[0]

    def _find_errors(self, size: int | None, probabilities: np.ndarray) -> np.ndarray:
        """Return the standard errors of what `_find_probabilities` returned; of a copy."""
        return np.zeros(probabilities.shape)

    def _find_size(self, observation: Any, size: Any) -> int | None:
        """Return how many decisions of a single run are asked for; None is one, or of lanes."""
        if size is not None:
            if self.num_envs is not None:
                condition = f"be None where there are lanes, here {self.num_envs}"
                raise ValueError(message("size", condition, size, "reset() prepares a single run"))
            return check_integer("size", size, minimum=1, maximum=self.max_lanes)
        if self._has_features and self.num_envs is None:
            return self.problem.count_visitors(observation)  # type: ignore[attr-defined,no-any-return]
        return None

    def _prepare_decision(self, size: int | None) -> None:
        """Bring what a subclass remembers to the data before `decide`, as its `_choose` would."""

    def _count_decisions(self, num_decisions: int) -> None:
        """Take note of so many decisions in each lane, where a subclass has a clock."""

    def _find_probabilities(self, size: int | None) -> np.ndarray:
        """Return the (N, K) probabilities of the decisions at hand, which are checked; of a copy.

        Where there are features, of (n, K).
        """
        name, masks = f"{type(self).__name__}._action_probabilities", self._available
        if size is None or not self._has_features:
            found, shape = self._action_probabilities(), (self.num_lanes, self._num_arms)
        else:
            features, shape = self.evidence.decision_features, (size, self._num_arms)
            found = self._find_many_probabilities(features)
        probabilities = check_probabilities(name, found, shape)
        if masks and probabilities[~masks[0]].any():
            condition = "return 0 for arms that are not available"
            raise ValueError(message(name, condition, probabilities, IF_ALL_ARMS))
        return probabilities

    def _find_many_probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return (n, K) probabilities of a single run, as `_choose_many` chooses; of a copy.

        Args:
            features: (n, K, d); `_available` is then of (n, K).
        """
        masks, prices, probabilities = self._available, self._prices, []
        for i in range(len(features)):
            self._show_one(i, features, masks, prices)
            probabilities.append(np.asarray(self._action_probabilities())[0])
        self.evidence.set_decision(features)
        self._available, self._prices = masks, prices
        return np.array(probabilities)

    def _warn_of_doubts(self) -> None:
        """Warn the caller of `action_probabilities` where these are doubted, if that is known."""

    def _act_top(
        self, observation: Any, available: Any, prices: Any, size: Any, floor: Any, top: int
    ) -> np.ndarray:
        """Return the (N, top) arms of `act` with a top."""
        with self._lock:
            self._require_reset()
            self._show(observation, available, self.num_envs, prices)
            self._check_top(top, size, floor)
            arms = self._choose_top(top)
            if self._has_features:
                self.evidence.mark_rewarded(self._lanes)
            return arms[0] if self.num_envs is None else arms

    def _check_top(self, top: Any, size: Any, others: Any) -> None:
        """Refuse a number of places that are not there, and what does not go with it."""
        if not self.takes_top:
            condition = f"be left out for {type(self).__name__}, which has no order of all arms"
            raise TypeError(message("top", condition, top))
        if size is not None or others:
            condition = "be alone: without a size, a floor or errors"
            raise ValueError(message("top", condition, top))
        num_arms = [self._num_arms, *(int(mask.sum(axis=1).min()) for mask in self._available)]
        check_integer("top", top, minimum=1, maximum=min(num_arms))

    def _choose_top(self, top: int) -> np.ndarray:
        """Return (N, top) arms in order, where a class says `takes_top`."""
        raise NotImplementedError

    def _position_probabilities(self, top: int) -> np.ndarray:
        """Return the (N, top, K) probabilities of what `_choose_top` returns."""
        raise NotImplementedError

    def _act_many(self, observation: Any, available: Any, size: Any, prices: Any) -> np.ndarray:
        """Return the (n,) arms of `act` with a size."""
        size = self._find_size(observation, size)
        self._show(observation, available, size if self._has_features else None, prices)
        features = self.evidence.decision_features if self._has_features else None
        actions = self._choose_many(size, features)
        check_choices(f"{type(self).__name__}._choose", actions, (size,), self._num_arms)
        if features is not None:
            self.evidence.set_decision(features)
        self._end_many()
        return actions

    def _end_many(self) -> None:
        """Keep the last of many decisions; which a reward is for, only its observation can say."""
        if self._has_features:
            self.evidence.set_decision(self.evidence.decision_features[-1:])
            self.evidence.mark_rewarded(self._lanes)

    def _choose_many(self, size: int, features: np.ndarray | None) -> np.ndarray:
        """Return (n,) arms, by `_choose` one after the other; rules that know better override it.

        It leaves (1, n) diagnostics.

        Args:
            size: n.
            features: (n, K, d), where there are any; `_available` is then of (n, K).
        """
        actions, diagnostics = np.empty(size, dtype=np.int64), []
        masks, prices = self._available, self._prices
        for i in range(size):
            if features is not None:
                self._show_one(i, features, masks, prices)
            actions[i] = self._decide().item(0)
            diagnostics.append(self._find_diagnostics())
        self._diagnostics = {
            name: np.stack([one[name] for one in diagnostics], axis=1) for name in diagnostics[0]
        }
        return actions

    def _decide(self) -> np.ndarray:
        """Return (N,) int64 arms by `_choose`, or refuse what is none."""
        actions = self._choose()
        if self._are_arms(actions) and not self._available:
            return actions
        name = f"{type(self).__name__}._choose"
        actions = check_choices(name, actions, self._lanes.shape, self._num_arms)
        if self._available and not self._available[0][self._lanes, actions].all():
            raise ValueError(message(name, "return available arms", actions, IF_ALL_ARMS))
        return actions

    def _choose(self) -> np.ndarray:
        """Return (N,) int64 arms; unless a subclass has another rule, those of largest score."""
        return random_argmax(self.rng, self._find_scores(), type(self).__name__)

    def _scores(self) -> np.ndarray:
        """Return (N, K) scores, of which the largest is played; infinite ones are scores."""
        name = type(self).__name__
        raise TypeError(
            f"{name} must define _scores, or _choose with _action_probabilities for propensities."
        )

    def _action_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities of what `_choose` returns. It may move a copy."""
        return argmax_probabilities(self._find_scores(), type(self).__name__)

    def _find_scores(self) -> np.ndarray:
        """Return the (N, K) scores, those of arms that are not available -inf."""
        name, shape = f"{type(self).__name__}._scores", (self.num_lanes, self._num_arms)
        return self._hide(check_returned(name, self._scores(), shape))

    def _hide(self, scores: np.ndarray) -> np.ndarray:
        """Return (N, K) scores, -inf where an arm is not available."""
        return hide_arms(scores, *self._available)

    def _copy_agent(self, keeps_draws: bool = False) -> Self:
        """Return a copy that may be moved while this agent stays as is; they share the generator.

        Args:
            keeps_draws: whether it answers from the draws of `decide`, if there are any.
        """
        copied = self._copy_shallow()
        copied.evidence = self.evidence.copy_decision()
        return copied

    def _start(self) -> None:
        """Prepare what a subclass remembers beside the statistics for `num_lanes` lanes."""
        self._restart(np.ones(self.num_lanes, dtype=bool))

    def _restart(self, mask: np.ndarray) -> None:
        """Forget what a subclass remembers beside the statistics, in the masked lanes."""

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Follow one reward in each of the given lanes, beside counts and sums."""

    def _are_arms(self, choices: np.ndarray) -> bool:
        """Say whether (N,) int64 choices are arms; one takes a tenth of the time of arrays."""
        is_array = type(choices) is np.ndarray and choices.dtype == np.int64
        if not is_array or choices.shape != self._lanes.shape:
            return False
        if len(choices) == 1:
            return 0 <= choices.item(0) < self._num_arms
        return bool(choices.view(np.uint64).max() < self._num_arms)  # a negative one is huge

    def _show_one(self, i: int, features: np.ndarray, masks: Any, prices: Any) -> None:
        """Take one of n decisions as that at hand."""
        mask = masks[0][i] if masks else None
        self._show(features[i], mask, None, [of_arms[i] for of_arms in prices] or (None, None))

    def _show(
        self, observation: Any, available: Any, num_decisions: int | None, prices: Any
    ) -> None:
        """Take the features, the available arms and the prices of the decisions at hand.

        Args:
            observation: see `act`.
            available: see `act`.
            num_decisions: None is one.
            prices: values and costs, each None where there are none.
        """
        shape: tuple[int, ...] = ()
        if self._has_features:
            observation = self.problem.place(observation, num_decisions)  # type: ignore[attr-defined]
            shape = getattr(as_array(observation), "shape", ())
        num_arms, mask = shape[-2] if len(shape) > 1 else self._num_arms, None
        if available is not None:
            if not self.takes_available:
                self._refuse_available(available)
            mask = check_available(available, num_arms, num_decisions)
        values, costs = prices
        prices = self._check_prices(values, costs, num_arms, num_decisions)
        if self._has_features:
            num_features = self.problem.num_features  # type: ignore[attr-defined]
            self.evidence.set_decision(
                check_features(observation, num_features, num_decisions, mask=mask)
            )
            self._num_arms = num_arms
        self._available, self._prices = () if mask is None else (mask,), prices

    def _check_prices(
        self, values: Any, costs: Any, num_arms: int, num_decisions: int | None
    ) -> tuple[np.ndarray, ...]:
        """Return (N, K) values and costs, or nothing where there are none."""
        if values is None and costs is None:
            return ()
        if not self.takes_values:
            condition = f"be left out for {type(self).__name__}, whose rule takes none"
            raise TypeError(message("values and costs", condition, (values, costs)))
        shape = num_decisions or 1, num_arms
        return (
            check_per_arm("values", 1.0 if values is None else values, shape, is_positive=True),
            check_per_arm("costs", 0.0 if costs is None else costs, shape),
        )
