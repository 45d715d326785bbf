"""Checks of agents and environments: what they exchange, and whether they fit each other.

They exchange one value per lane, features of arms, or statistics per arm.
"""

import inspect
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.spaces import Discrete

from bandit_gym.checks.arguments import (
    as_array,
    as_numbers,
    check_all,
    check_numbers,
    check_real,
    check_returned,
    message,
    shorten_repr,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray

MAX_PULLS_PER_ARM = 2**53
"""Pulls of an arm at most: larger numbers are no longer exact as floats."""

MAX_REWARD = 1e150
"""Size of a reward at most: of so many, the sum is finite."""

MAX_FEATURE = 1e100
"""Larger features have squares, and products of these, that are no numbers."""

MAX_SQUARE_ROUNDING, MAX_HIDDEN = 1e-9, 1e-3
"""Of a sum of squared rewards, as a share, by which it may be below sums^2 / counts; and spacing of
numbers there, as a share of what says how large the deviation of rewards is."""

MAX_SUM_ERROR = 0.01
"""From one, of the sum of probabilities that an agent finds; those here are off by some 1e-6."""

CHANGING_WRAPPERS = (
    *(gym.ActionWrapper, gym.RewardWrapper),
    *(gym.vector.VectorActionWrapper, gym.vector.VectorRewardWrapper),
    *(gym.wrappers.NormalizeReward, gym.wrappers.vector.NormalizeReward),
    *(gym.wrappers.MaxAndSkipObservation, getattr(gym.wrappers, "RepeatAction", ())),  # from 1.3
)
FEATURE_WRAPPERS = gym.ObservationWrapper, gym.vector.VectorObservationWrapper


def check_actions(
    actions: Any, num_arms: int, num_envs: int | None, *, mask: BoolArray | None = None
) -> IntArray:
    """Return the pulled arms as an array, one per lane.

    Args:
        actions: (N,) arms, or one arm when `num_envs` is None.
        num_arms: K; an action is one of 0, ..., K - 1.
        num_envs: N, or None for a single run.
        mask: (N,) lanes to check; the others come back as 0.

    Returns:
        (N,) actions in [0, K), (1,) for a single run.

    Raises:
        InvalidAction: if an action is not an integer, is out of range, or the shape is another.
    """
    if num_envs is None and mask is None and _is_plain(actions) and 0 <= actions < num_arms:
        return np.array([actions], dtype=np.int64)
    name, rule = ("action", "an integer") if num_envs is None else ("actions", "integers")
    condition = f"be {rule} from 0 to {num_arms - 1}"
    try:
        values = _read_lanes(name, condition, actions, "iu", num_envs).astype(np.int64)
        if mask is not None:
            values[~mask] = 0
        # Seen as unsigned, a negative action is a huge one: one comparison finds both kinds.
        _refuse_lane(name, condition, values, values.view(np.uint64) >= num_arms)
    except (TypeError, ValueError) as error:
        raise InvalidAction(str(error)) from None
    return values


def check_choices(name: str, choices: Any, shape: tuple[int], num_arms: int) -> IntArray:
    """Return (N,) chosen arms as int64, or refuse what is none.

    Args:
        name: of the function that chose.
        choices: what it returned.
        shape: (N,).
        num_arms: K; a choice is one of 0, ..., K - 1.
    """
    values = check_returned(name, choices, shape)
    is_wrong = ~((values >= 0) & (values < num_arms) & (values == np.floor(values)))
    _refuse_lane(name, f"return arms from 0 to {num_arms - 1}", values, is_wrong)
    return values.astype(np.int64)


def check_available(available: Any, num_arms: int, num_envs: int | None) -> BoolArray:
    """Return a copy of a mask of available arms, (K,) or (N, K), as (N, K).

    Raises:
        TypeError: if it is not boolean.
        ValueError: if it has another shape, or no arm in a lane.
    """
    mask, shape = as_array(available), (num_envs or 1, num_arms)
    if mask is None or mask.dtype.kind != "b":
        raise TypeError(message("available", "be an array of booleans", available))
    if mask.shape != shape[1:] and (num_envs is None or mask.shape != shape):
        rule = f"{shape[1:]}" + ("" if num_envs is None else f" or {shape}")
        raise ValueError(message("available", f"have shape {rule}", mask.shape))
    mask = np.broadcast_to(mask, shape).copy()
    _refuse_lane("available", "have an arm", mask.tolist(), mask.sum(axis=1) == 0)
    return mask


def check_per_arm(
    name: str, numbers: Any, shape: tuple[int, int], *, is_positive: bool = False
) -> FloatArray:
    """Return finite numbers of arms, one, (K,) or (N, K), as (N, K)."""
    given = check_numbers(name, numbers)
    if given.shape not in ((), shape[1:], shape):
        condition = f"have shape {shape[1:]} or {shape}"
        raise ValueError(message(name, condition, given.shape))
    given = np.broadcast_to(given, shape)
    is_right = np.isfinite(given) & ((given > 0) | (not is_positive))
    check_all(name, is_right, "be finite" + " and above 0" * is_positive, given)
    return given


def check_played(actions: IntArray, available: BoolArray, mask: BoolArray | None) -> None:
    """Refuse (N,) pulled arms that were not available, in the (N,) masked lanes."""
    is_wrong = ~available[np.arange(len(actions)), actions] & (True if mask is None else mask)
    condition, remedy = "be an arm that was available at the last act", "or give its observation"
    _refuse_lane("action", condition, actions, is_wrong, remedy)


def check_scores(name: str, scores: Any) -> None:
    """Refuse (N, K) scores that are NaN."""
    remedy = "perhaps it has no pulls"
    _refuse_arm(f"scores of {name}", "have no NaN", scores, np.isnan(scores), remedy)


def check_probabilities(name: str, probabilities: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return (N, K) probabilities, made to sum to one as exactly as NumPy's `choice` demands."""
    values = check_returned(name, probabilities, shape)
    totals = values.sum(axis=1, keepdims=True)
    is_right = np.abs(totals[:, 0] - 1) <= MAX_SUM_ERROR
    if np.count_nonzero(is_right) < len(values) or np.count_nonzero(values < 0):
        _refuse_lane(name, "return probabilities that sum to 1", totals[:, 0], ~is_right)
        least = values.min(axis=1)
        _refuse_lane(name, "return no negative probabilities", least, least < 0)
    return np.asarray(values / totals)


def check_rewards(
    rewards: Any, rule: Any, num_envs: int | None, mask: BoolArray | None = None
) -> FloatArray:
    """Return the observed rewards as an array, one per lane.

    Args:
        rewards: (N,) rewards, or one reward when `num_envs` is None.
        rule: the likelihood, which says what rewards are possible.
        num_envs: N, or None for a single run.
        mask: (N,) lanes to check; the others come back as 0.

    Returns:
        (N,) possible rewards, (1,) for a single run.

    Raises:
        TypeError: if a reward is not a number.
        ValueError: if a reward is impossible under the rule, or the shape is another.
    """
    if num_envs is None and mask is None and (type(rewards) is float or _is_plain(rewards)):
        if -MAX_PULLS_PER_ARM < rewards < MAX_PULLS_PER_ARM and rule.is_possible(float(rewards)):
            return np.array([float(rewards)])
    name = "reward" if num_envs is None else "rewards"
    condition = f"be {rule.reward_rule} under {rule.name} rewards"
    values = _read_lanes(name, condition, rewards, "biuf", num_envs).astype(np.float64)
    if mask is not None:
        values[~mask] = 0.0
    is_impossible = ~rule.is_possible(values) & (True if mask is None else mask)
    _refuse_lane(name, condition, values, is_impossible)
    _refuse_lane(name, f"be at most {MAX_REWARD:g} in size", values, np.abs(values) > MAX_REWARD)
    return values


def check_weights(weights: Any, num_lanes: int, mask: BoolArray | None = None) -> FloatArray:
    """Return (N,) weights of rewards, of which one number may stand for all, or refuse them.

    Args:
        weights: (N,), or a number.
        num_lanes: N, or how many rows there are.
        mask: (N,) lanes to check; the others come back as 1.
    """
    name, condition = "weight", "be a number above 0 and at most 2**53"
    alone = np.ndim(as_array(weights)) == 0  # type: ignore[arg-type]
    values = _read_lanes(name, condition, weights, "iuf", None if alone else num_lanes)
    values = np.broadcast_to(values.astype(np.float64), num_lanes).copy()
    if mask is not None:
        values[~mask] = 1.0
    _refuse_lane(name, condition, values, ~((values > 0) & (values <= MAX_PULLS_PER_ARM)))
    return values


def check_statistics(
    counts: Any,
    sums: Any,
    rule: Any,
    shape: tuple[int, ...],
    axes: tuple[str, ...] = ("lane", "arm"),
) -> tuple[IntArray, FloatArray]:
    """Return pull counts and reward sums as arrays of one shape, (..., K).

    Args:
        counts: number of pulls of each arm, whole numbers; anything that broadcasts to `shape`.
        sums: total reward of those pulls, in reward units; anything that broadcasts to `shape`.
        rule: the likelihood, which says what sums are possible.
        shape: (..., K), the shape to return.
        axes: what a message calls an entry of the last two axes, or of the one.

    Returns:
        `shape` counts and `shape` sums, both writable.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if they do not broadcast, are impossible under the rule, or are series of pandas
            whose labels differ, as those of `value_counts()` and of `groupby` may.
    """
    labels: Any = getattr(counts, "index", None)
    others: Any = getattr(sums, "index", None)
    if hasattr(labels, "equals") and hasattr(others, "equals") and not labels.equals(others):
        condition = "have the labels of counts in their order"  # pandas, which we do not import
        raise ValueError(message("sums", condition, others.tolist()))
    count_array = _broadcast("counts", counts, shape)
    sum_array = _broadcast("sums", sums, shape)
    is_whole = (count_array == np.floor(count_array)) & (count_array <= MAX_PULLS_PER_ARM)
    is_wrong = ~(is_whole & (count_array >= 0))
    _refuse_arm("counts", "be whole numbers from 0 to 2**53", count_array, is_wrong, axes=axes)
    is_wrong = ~rule.is_possible_sum(count_array, sum_array)
    is_wrong |= np.abs(sum_array) > MAX_REWARD**2
    condition = f"be possible totals of so many {rule.name} rewards"
    _refuse_arm("sums", condition, sum_array, is_wrong, axes=axes)
    return count_array.astype(np.int64), sum_array


def check_arm_order(name: str, totals: Any, num_arms: int) -> None:
    """Refuse an array of one arm's totals for all, and series of pandas in another order of arms.

    Series whose labels are no integers say nothing of the order.
    """
    numbers = as_numbers(totals)
    labels: Any = getattr(totals, "index", None)
    if numbers is not None and numbers.shape[-1:] == (1,) and num_arms > 1:
        raise ValueError(message(name, f"have an entry for each of {num_arms} arms", totals))
    if numbers is not None and numbers.ndim == 1 and hasattr(labels, "dtype"):
        arms = [*range(num_arms)]
        if labels.dtype.kind in "iu" and labels.tolist() != arms:
            remedy = "Series.reindex(range(K), fill_value=0) puts them so"
            condition = f"have the arms {arms} in this order"
            raise ValueError(message(name, condition, labels.tolist(), remedy))


def check_squares(
    squares: Any, counts: IntArray, sums: FloatArray, problem: Any
) -> FloatArray | None:
    """Return (..., K) sums q of squared rewards less s^2 / n, or None where they are not needed.

    The posterior of the variance has the scale b + q / 2, b the prior's, and more. Sums of squares
    far from 0 are rounded by half of the spacing of numbers there, which is to be small beside it.

    Args:
        squares: sums of squared rewards; anything that broadcasts to the shape of counts.
        counts: (..., K) pulls.
        sums: (..., K) total rewards.
        problem: whose likelihood says whether squares are needed.

    Raises:
        ValueError: if they are needed and not given, or the other way round, are below s^2 / n, or
            are so large that their rounding hides q.
    """
    rule = problem.likelihood
    if (squares is None) == rule.needs_squares:
        what = "be given where" if squares is None else "be left out unless"
        raise ValueError(message("squares", f"{what} the std of rewards is None", squares))
    if squares is None:
        return None
    values = _broadcast("squares", squares, counts.shape)
    centred = values - sums * (sums / np.maximum(counts, 1))
    is_wrong = ~(centred >= -MAX_SQUARE_ROUNDING * values) | ~np.isfinite(values)
    is_wrong |= (counts == 0) & (values != 0)
    condition = "be sums of squared rewards, finite and at least sums^2 / counts"
    _refuse_arm("squares", condition, values, is_wrong)
    centred = np.maximum(centred, 0.0)
    is_hidden = np.spacing(values) > MAX_HIDDEN * (2 * np.asarray(problem.prior.scale) + centred)
    condition = "be spaced, as floats, by under 0.001 (squares - sums^2 / counts + 2 prior.scale)"
    remedy = "observe single rewards, or take a number near them from rewards and prior.mean"
    _refuse_arm("squares", condition, values, is_hidden, remedy)
    return centred


def check_arms(name: str, values: Any, num_arms: int) -> tuple[int, ...]:
    """Return the shape of an array of numbers whose last axis is the K arms."""
    numbers = as_numbers(values)
    if numbers is None or numbers.shape[-1:] != (num_arms,):
        error = TypeError if numbers is None else ValueError
        raise error(message(name, f"be numbers of shape (..., {num_arms})", values))
    return numbers.shape


def check_mask(name: str, mask: Any, num_envs: int) -> BoolArray:
    """Return a mask over lanes, (N,) bool; numbers are not taken for truth values."""
    return _read_lanes(name, "be an array of booleans", mask, "b", num_envs)


def check_features(
    observation: Any,
    num_features: int,
    num_envs: int | None,
    *,
    mask: BoolArray | None = None,
    takes_played: bool = False,
) -> FloatArray:
    """Return a copy of the (N, K, d) features of each arm, or of the (N, d) of the played arms.

    K may be another at each decision.

    Args:
        observation: (N, K, d) features, or (K, d) when `num_envs` is None.
        num_features: d.
        num_envs: N, or None for a single run.
        mask: (N,) lanes to read; the others come back as 0, and may hold NaN.
        takes_played: whether (N, d) features, or (d,), of the played arms are taken too.

    Raises:
        TypeError: if they are no numbers, or None.
        ValueError: if the shape is another, or a feature is NaN, infinite or above MAX_FEATURE.
    """
    lanes = () if num_envs is None else (num_envs,)
    values = as_numbers(observation, "biuf")
    shape = () if values is None else values.shape
    is_shaped = shape[: len(lanes)] == lanes and shape[-1:] == (num_features,) and 0 not in shape
    num_axes = len(shape) - len(lanes)
    if values is None or not is_shaped or not (num_axes == 2 or (num_axes == 1 and takes_played)):
        before = "".join(f"{size}, " for size in lanes)
        condition = f"be features of shape ({before}K, {num_features})"
        if takes_played:
            condition += f", or ({before}{num_features}{'' if lanes else ','}) of the arm pulled"
        if values is None:
            raise TypeError(message("observation", condition, observation))
        raise ValueError(f"observation must {condition}, got shape {shape}.")
    values = np.ascontiguousarray(values if lanes else values[None])
    if mask is not None:
        values[~mask] = 0.0
    is_finite = np.abs(values) <= MAX_FEATURE
    if np.count_nonzero(is_finite) < is_finite.size:  # a third of the time of `all`
        condition = f"have finite features, of at most {MAX_FEATURE:g}"
        raise ValueError(message("observation", condition, values[~is_finite][0]))
    return values


def check_plain_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning where arms have features.

    Args:
        options: what was given, by name.
        defaults: what each is then to be.
    """
    for name, value in options.items():
        if value != defaults[name]:
            condition = f"be {defaults[name]!r} where arms have features"
            raise ValueError(message(name, condition, value))


def _is_plain(action: Any) -> bool:
    """Say whether an action is an integer, and no bool, without making an array of it."""
    return type(action) is int or isinstance(action, np.integer)


def _read_lanes(
    name: str, condition: str, value: Any, kinds: str, num_envs: int | None
) -> np.ndarray[Any, Any]:
    """Return an array of one of NumPy's `kinds` with an entry per lane, one for a single run."""
    values = as_array(value)
    if values is None or values.dtype.kind not in kinds:
        raise TypeError(message(name, condition, value))
    shape = () if num_envs is None else (num_envs,)
    if values.shape != shape:
        rule = "no axes (one run)" if num_envs is None else f"shape {shape}"
        rule += ", one per lane" if (num_envs or 1) > 1 else ""
        raise ValueError(message(name, f"have {rule}", value))
    return values.reshape(-1)


def _refuse_lane(
    name: str, condition: str, values: Any, is_wrong: BoolArray, remedy: str = ""
) -> None:
    if np.count_nonzero(is_wrong):  # three times as fast as any() for few lanes
        lane = int(np.argmax(is_wrong))
        place = f" in lane {lane}" if len(values) > 1 else ""
        raise ValueError(message(name, condition, values[lane], remedy, place))


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    numbers = as_numbers(value)
    if numbers is None:
        raise TypeError(message(name, "be an array of numbers", value))
    try:
        return np.broadcast_to(numbers, shape).copy()
    except ValueError:
        text = message(name, f"broadcast to shape {shape}", numbers.shape)
        raise ValueError(text) from None


def _refuse_arm(
    name: str,
    condition: str,
    values: FloatArray,
    is_wrong: BoolArray,
    remedy: str = "",
    axes: tuple[str, ...] = ("lane", "arm"),
) -> None:
    if is_wrong.any():
        *lane, arm = (int(index[0]) for index in np.nonzero(is_wrong))
        is_alone = len(lane) != 1 or len(values) == 1  # and a single run speaks of no lane
        place = f" for {axes[-1]} {arm}" + ("" if is_alone else f" of {axes[0]} {lane[0]}")
        raise ValueError(message(name, condition, values[is_wrong][0], remedy, place))


# -- Agents and environments against each other ----------------------------------------------------


def check_fit(agent: Any, env: Any, *, warns: bool = True) -> None:
    """Refuse environments whose actions are not 0 .. K - 1, and agents made for other spaces.

    An agent that knows its number of arms has it in `problem`; one that knows its observations too,
    as a trained model does, has a method `check_spaces`.

    Args:
        agent: the learner.
        env: the environment.
        warns: False where another belief is what was asked for.

    Warns:
        UserWarning: if the agent believes in another likelihood or prior than the environment's.
    """
    for name in ("reset", "act", "observe"):
        if not callable(getattr(agent, name, None)):
            methods, remedy = "the methods reset, act and observe", "without reset, pass its class"
            raise TypeError(message("agent", f"have {methods}", agent, remedy))
    if not hasattr(env, "action_space"):
        raise TypeError(message("env", "be a Gymnasium environment", env))
    space = getattr(env, "single_action_space", env.action_space)
    if not isinstance(space, Discrete) or space.start != 0:
        raise TypeError(f"env must have Discrete actions that start at 0, got {space!r}.")
    problem = getattr(agent, "problem", None)
    num_arms = getattr(problem, "num_arms", space.n)
    if num_arms != space.n:
        condition = f"have as many arms as the environment, {space.n}"
        remedy = "build it with the environment's own problem"
        raise ValueError(message("agent", condition, num_arms, remedy))
    if hasattr(agent, "check_spaces"):
        agent.check_spaces(env)
    misspecification = find_misspecification(problem, find_problem(env)) if warns else None
    if misspecification:
        text = f"agent {misspecification}; its results are those of a misspecified agent."
        warnings.warn(text, stacklevel=3)  # the caller of what checks


def check_act_options(
    agent: Any,
    num_arms: int,
    num_envs: int | None,
    values: Any = None,
    costs: Any = None,
    floor: Any = 0.0,
) -> dict[str, Any]:
    """Return what an agent's `act` is given beside the observation, of the last three.

    Returns:
        Values and costs are (N, K), or (K,) for a single run; what says nothing is left out.

    Raises:
        TypeError: if the agent does not take them.
        ValueError: if a value, a cost or the floor is out of range.
    """
    given, shape = {"values": values, "costs": costs}, (num_envs or 1, num_arms)
    options: dict[str, Any] = {
        name: check_per_arm(name, numbers, shape, is_positive=name == "values")
        for name, numbers in given.items()
        if numbers is not None
    }
    if num_envs is None:
        options = {name: numbers[0] for name, numbers in options.items()}
    takes_prices = not options or getattr(agent, "takes_values", True)
    if least := check_real("floor", floor, minimum=0.0, maximum=1 / num_arms):
        options["floor"] = least
    parameters = inspect.signature(agent.act).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if options and not (takes_prices and (takes_any or {*options} <= {*parameters})):
        raise TypeError(message("agent", f"take {' and '.join(options)} in act", agent))
    return options


def find_problem(env: Any) -> Any:
    """Return what an environment, or the first one of several, has for agents; None if nothing.

    A wrapper that changes rewards has a problem of its own, which comes first; of the arms of one
    that has none, such as Gymnasium's `NormalizeReward` or `StickyAction`, nothing is known, nor of
    those whose features one of observations changes.
    """
    problem = getattr(env, "problem", None)
    inner = next(iter(getattr(env, "envs", ())), getattr(env, "env", None))
    is_last = problem is not None or inner is None or isinstance(env, CHANGING_WRAPPERS)
    if is_last:
        return problem
    known = find_problem(inner)
    return None if hasattr(known, "num_features") and isinstance(env, FEATURE_WRAPPERS) else known


def find_misspecification(believed: Any, true: Any) -> str | None:
    """Say in words where an agent's problem differs from its environment's; None if it does not.

    Beliefs about another likelihood's means differ too, so the likelihood is reported first.
    """
    for part in ("likelihood", "prior"):
        given, true_part = (getattr(problem, part, None) for problem in (believed, true))
        is_known = not (given is None or true_part is None or hasattr(true_part, "is_unknown"))
        if is_known and _is_other(given, true_part):
            given, true_part = _describe_part(given), _describe_part(true_part)
            return f"believes in the {part} {given}, where the environment's is {true_part}"
    return None


def _describe_part(value: Any) -> str:
    """Return the repr, or the name of a class whose repr is an address."""
    has_own: Any = type(value).__repr__ is not object.__repr__  # type: ignore[comparison-overlap]
    return shorten_repr(value) if has_own else type(value).__name__


def _is_other(first: Any, second: Any) -> bool:
    """Say whether two objects differ, by content; of what cannot be compared, nothing is said."""
    with suppress(Exception):  # what others have written may neither compare nor pickle
        if first == second:
            return False
        import cloudpickle  # slow to start; unlike pickle it takes classes of a session in a worker

        return bool(cloudpickle.dumps(first) != cloudpickle.dumps(second))
    return False
