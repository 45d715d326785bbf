"""How an agent decides: an arm, the probabilities of arms, or both together, to be logged.

An agent's rule is in its subclass; here is what all of them take beside the features of the arms,
which are checked and kept as those of the decision at hand.

Notation: K arms, N lanes, n decisions of a single run. Batch axis first.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from agents.base.lanes import Lanes
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
    check_available,
    check_choices,
    check_features,
    check_integer,
    check_per_arm,
    check_probabilities,
    check_returned,
    is_project_class,
    message,
)
from bandit_gym.doubts import Doubt
from bandit_gym.problem import BanditProblem

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


class Decider(Lanes):
    """What decides in N lanes at once; `agents.base.agent.Agent` is one that learns.

    Subclasses say how to choose: `_scores`, or `_choose` and `_action_probabilities`.

    Attributes:
        problem: likelihood, prior and number of arms.
        evidence: what the agent keeps of its data; with features, also those of the decision.
        has_exact_probabilities: whether `action_probabilities` is the distribution of the next
            `act` itself, and not one that the agent approximates. With `top` it is so of conjugate
            posteriors alone; others count places in draws.
        takes_available: whether decisions take a mask of available arms. A rule by `_scores` may
            say so; one by `_choose` may if this and `_action_probabilities` keep to `_available`.
        takes_values: whether decisions take `values` and `costs` of the arms, as those of rules do
            that ask nothing but the belief.
        takes_top: whether `act` and `action_probabilities` take `top`, for the order of one draw.
    """

    has_exact_probabilities: bool = True
    takes_available: ClassVar[bool] = False
    takes_values: bool = False
    takes_top: bool = False
    problem: BanditProblem
    evidence: Any
    _has_features: bool
    _num_arms: int  # of the decision at hand: features may be of others
    _lanes: np.ndarray  # (N,) their indices
    _available: tuple[np.ndarray, ...] = ()  # at the decision at hand: (N, K), if not all
    _prices: tuple[np.ndarray, ...] = ()  # (N, K) values and costs at the same, if any
    _diagnostics: dict[str, np.ndarray] | None = {}  # of the last `act`; None until asked

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
        if floor != 0 and top is None:
            options = {"available": available, "size": size, "values": values, "costs": costs}
            return self.decide(observation, floor=floor, **options).actions
        with self._lock:
            self._require_reset()
            if size is not None and top is None:
                size = self._show_many(observation, size, available, values, costs)
                return self._act_many(size)
            is_plain = available is None and values is None and costs is None and top is None
            if self._has_features or not is_plain or self._available or self._prices:
                self._check_alone(top, size, floor)
                self._show(observation, self.num_envs, available, values, costs, top=top)
            if top is None:
                actions = self._decide()
                return int(actions.item(0)) if self.num_envs is None else actions
            actions = self._choose_top(top)
            if self._has_features:
                self.evidence.mark_rewarded(self._lanes)
            return actions[0] if self.num_envs is None else actions

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
            size = self._show_many(observation, size, available, values, costs, floor)
            self._prepare_decision(size)
            with self._generator_kept():
                asked = self._copy_agent(keeps_draws=True)
                probabilities = asked._find_probabilities(size)
            self._take_diagnostics(asked)
            probabilities = raise_to_floor(probabilities, floor, *self._available)
            if size is not None and not self._has_features:
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
            TypeError: if your own class needs `_action_probabilities`, and has none.
            ValueError: if its `_action_probabilities` does not sum to one.
        """
        self._require_reset()
        asked = self._copy_agent()
        size = asked._show_many(observation, None, available, values, costs, floor, top)
        with self._generator_kept():
            if top is not None:
                asked._check_alone(top, size, floor or return_error)
                places = asked._position_probabilities(top)
                return places[0] if self.num_envs is None else places
            probabilities = asked._find_probabilities(size)
            answers = [raise_to_floor(probabilities, floor, *asked._available)]
            asked._warn_of_doubts()
            if return_error:
                errors = asked._find_errors(size, probabilities, floor)
                answers.append(np.maximum(errors, MIN_STATED_ERROR))
        if size is None and self.num_envs is None:
            answers = [answer[0] for answer in answers]
        return tuple(answers) if return_error else answers[0]

    def _find_size(self, observation: Any, size: Any) -> int | None:
        """Return how many decisions of a single run are asked for; None is one, or of lanes."""
        if size is not None:
            if self.num_envs is not None:
                condition = f"be None where there are lanes, here {self.num_envs}"
                raise ValueError(message("size", condition, size, "reset() prepares a single run"))
            # Without features all have the posterior of one lane.
            most = self.max_lanes if self._has_features else self.evidence.max_lanes
            return check_integer("size", size, minimum=1, maximum=most)
        if self._has_features and self.num_envs is None:
            return self.problem.count_visitors(observation)  # type: ignore[attr-defined,no-any-return]
        return None

    def _show_many(self, observation: Any, size: Any, *offer: Any) -> int | None:
        """Take n decisions of a single run, or one in each lane; return n, None for one.

        With features, as many are at hand; without, they are the same one. What follows the size
        is what follows the number of decisions in `_show`.
        """
        size = self._find_size(observation, size)
        has_many = self._has_features and self.num_envs is None
        self._show(observation, size if has_many else self.num_envs, *offer)
        if has_many and size is not None:  # which a reward is for, only its observation can say
            self.evidence.mark_rewarded(self._lanes)
        return size

    def _show(
        self,
        observation: Any,
        num_decisions: int | None,
        available: Any = None,
        values: Any = None,
        costs: Any = None,
        floor: Any = 0.0,
        top: Any = None,
    ) -> None:
        """Take the features, the available arms and the prices of the decisions at hand.

        What is refused leaves those of the last decision as they are.

        Args:
            observation: see `act`.
            num_decisions: None is one.
            available: see `act`, as all that follow.
            values: None is 1.
            costs: None is 0.
            floor: is only checked.
            top: likewise.
        """
        shape: tuple[int, ...] = ()
        masks: tuple[np.ndarray, ...] = ()
        if self._has_features:
            observation = self.problem.place(observation, num_decisions)  # type: ignore[attr-defined]
            shape = getattr(as_array(observation), "shape", ())
        num_arms = shape[-2] if len(shape) > 1 else self._num_arms
        if available is not None:
            if not self.takes_available:
                self._refuse_available(available)
            masks = (check_available(available, num_arms, num_decisions),)
        prices = self._check_prices(values, costs, num_arms, num_decisions)
        check_floor(floor, num_arms, *masks)
        if top is not None:
            places = [num_arms, *(int(mask.sum(axis=1).min()) for mask in masks)]
            check_integer("top", top, minimum=1, maximum=min(places))
        if self._has_features:
            size = self.problem.num_features, num_decisions  # type: ignore[attr-defined]
            mask = masks[0] if masks else None
            self.evidence.set_decision(check_features(observation, *size, mask=mask))
            self._num_arms = num_arms
        self._available, self._prices = masks, prices

    def _show_one(self, i: int, features: np.ndarray, masks: Any, prices: Any) -> None:
        """Take one of n decisions as that at hand."""
        mask = masks[0][i] if masks else None
        self._show(features[i], None, mask, *(of_arms[i] for of_arms in prices))

    def _check_prices(
        self, values: Any, costs: Any, num_arms: int, num_decisions: int | None
    ) -> tuple[np.ndarray, ...]:
        """Return (N, K) values and costs, or nothing where there are none."""
        if values is None and costs is None:
            return ()
        if not self.takes_values:
            self._refuse_option("values and costs", (values, costs), "whose rule takes none")
        shape = num_decisions or 1, num_arms
        return (
            check_per_arm("values", 1.0 if values is None else values, shape, is_positive=True),
            check_per_arm("costs", 0.0 if costs is None else costs, shape),
        )

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

    def _are_arms(self, choices: np.ndarray) -> bool:
        """Say whether (N,) int64 choices are arms; one takes a tenth of the time of arrays."""
        is_array = type(choices) is np.ndarray and choices.dtype == np.int64
        if not is_array or choices.shape != self._lanes.shape:
            return False
        if len(choices) == 1:
            return 0 <= choices.item(0) < self._num_arms
        return bool(choices.view(np.uint64).max() < self._num_arms)  # a negative one is huge

    def _choose(self) -> np.ndarray:
        """Return (N,) int64 arms; unless a subclass has another rule, those of largest score."""
        return random_argmax(self.rng, self._find_scores(), type(self).__name__)

    def _scores(self) -> np.ndarray:
        """Return (N, K) scores, of which the largest is played; infinite ones are scores."""
        name = type(self).__name__
        raise TypeError(
            f"{name} must define _scores, or _choose with _action_probabilities for propensities."
        )

    def _find_scores(self) -> np.ndarray:
        """Return the (N, K) scores, those of arms that are not available -inf."""
        name, shape = f"{type(self).__name__}._scores", (self.num_lanes, self._num_arms)
        return self._hide(check_returned(name, self._scores(), shape))

    def _hide(self, scores: np.ndarray) -> np.ndarray:
        """Return (N, K) scores, -inf where an arm is not available."""
        return hide_arms(scores, *self._available)

    def _act_many(self, size: Any) -> np.ndarray:
        """Return the (n,) arms of `act` with a size, after `_show_many`."""
        features = self.evidence.decision_features if self._has_features else None
        try:
            actions = self._choose_many(size, features)
        finally:
            self._end_many()
        check_choices(f"{type(self).__name__}._choose", actions, (size,), self._num_arms)
        return actions

    def _end_many(self) -> None:
        """Keep the last of many decisions, for which no reward comes without its observation."""
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

    def _check_alone(self, top: Any, size: Any, others: Any) -> None:
        """Refuse `top`, if it is given, where there is no order, and beside what it excludes."""
        if top is None:
            return
        if not self.takes_top:
            self._refuse_option("top", top, "which has no order of all arms")
        if size is not None or others:
            condition = "be alone: without a size, a floor or errors"
            raise ValueError(message("top", condition, top))

    def _choose_top(self, top: int) -> np.ndarray:
        """Return (N, top) arms in order, where a class says `takes_top`."""
        raise NotImplementedError

    def _position_probabilities(self, top: int) -> np.ndarray:
        """Return the (N, top, K) probabilities of what `_choose_top` returns."""
        raise NotImplementedError

    def _action_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities of what `_choose` returns. It may move a copy."""
        generator = self.rng.bit_generator
        before = generator.state
        scores = self._find_scores()
        if generator.state != before:  # the posterior may have made its draws, which stay
            before = generator.state
            scores = self._find_scores()
            if generator.state != before:
                raise TypeError(
                    f"{type(self).__name__} must define _action_probabilities for propensities, as "
                    "its _scores are random."
                )
        return argmax_probabilities(scores, type(self).__name__)

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

    def _find_errors(self, size: int | None, probabilities: np.ndarray, floor: float) -> np.ndarray:
        """Return standard errors of `_find_probabilities`, raised to the floor; of a copy."""
        return np.zeros(probabilities.shape)

    def _prepare_decision(self, size: int | None) -> None:
        """Bring what a subclass remembers to the data before `decide`, as its `_choose` would."""

    def _take_diagnostics(self, asked: Self) -> None:
        """Take what a copy has noted of the decision that `decide` asked of it."""

    def _count_decisions(self, num_decisions: int) -> None:
        """Take note of so many decisions in each lane, where a subclass has a clock."""

    def _warn_of_doubts(self) -> None:
        """Warn the caller of `action_probabilities` where these are doubted, if that is known."""

    def _copy_agent(self, keeps_draws: bool = False) -> Self:
        """Return a copy that may be moved while this agent stays as is; they share the generator.

        Args:
            keeps_draws: whether it answers from the draws of `decide`, if there are any.
        """
        copied = self._copy_shallow()
        copied.evidence = self.evidence.copy_decision()
        for kind in type(self).__mro__:
            if not is_project_class(kind):  # whose methods may change arrays in place
                for name in vars(kind).get("state_names", ()):
                    setattr(copied, name, copy.deepcopy(getattr(self, name)))
        return copied

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
