"""What another policy would have earned on the visitors of a log: off-policy evaluation.

Notation: K arms, t rows, d features, F folds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import (
    check_act_options,
    check_all,
    check_callback,
    check_choice,
    check_numbers,
    check_probabilities,
    check_real,
    message,
    shorten_repr,
)
from bandit_gym.checks.typing import FloatArray
from bandit_gym.learned_logs import MAX_WEIGHT, estimate_by_arms, estimate_by_betting
from bandit_gym.logs import Log, check_log
from bandit_gym.results.statistics import MIN_REPLICATIONS, Interval, mean_interval

NUM_FOLDS = 5
"""F: each row's rewards are predicted from the rows of the other folds."""

MAX_WEIGHT_GAP = 4.0
"""Standard errors that the mean weight may be from 1; fixed policies are beyond in under 1 %."""

MAX_WEIGHT_SHARE = 0.1
"""Of one row in the sum of weights; where it has more, it decides the value alone."""

WEIGHTED = "ips", "snips", "dr"
"""Estimators whose intervals are for rows that do not depend on each other."""

ESTIMATORS = (*WEIGHTED, "adaptive", "betting")


@dataclass(frozen=True)
class PolicyValue:
    """The mean reward of a decision, in reward units, and a 95 % interval.

    Attributes:
        value: the estimate.
        low: end of the interval. Both ends are NaN where the effective sample size is below 10, or
            all rows with an action of the policy have the same reward, as 0 of rare clicks.
            "adaptive" and "betting" say in a warning why they have none.
        high: end of the interval.
        effective_sample_size: rows that the weighted rows are worth, (sum w)^2 / sum w^2.
        num_rows: rows that were used.
        num_clipped: rows whose weights were cut to the largest that was asked for.
    """

    value: float
    low: float
    high: float
    effective_sample_size: float
    num_rows: int
    num_clipped: int = 0


def evaluate(
    policy: Any,
    log: Log,
    estimator: str | None = None,
    *,
    observation: Any = None,
    clip: float | None = None,
    baseline: Any = None,
    reward_range: tuple[float, float] | None = None,
    logger: str | None = None,
) -> PolicyValue:
    """Estimate the mean reward of a frozen policy from another policy's log.

    With weights w_i = pi(a_i | x_i) / p_i, "ips" is the mean of w_i r_i, "snips" the weighted mean
    of r_i, and "dr" the mean of r(x_i, pi) + w_i (r_i - r(x_i, a_i)). There r predicts rewards, by
    means of arms, or least squares on the features of each arm, from other folds of the log. Their
    intervals are for logs of policies that did not learn.

    "adaptive" and "betting" have intervals for logs of policies that learned, too. "adaptive"
    weighs each arm's rows (see `estimate_arm`); an arm of the policy with fewer than 10 pulls is
    warned of, and has betting's limits, if the range of rewards is known. "betting" needs that
    range and `log.propensities` alone; features may be there, and its limits are wider.

    Args:
        policy: (K,) or (t, K) probabilities, in the order of `log.arms` or with these labels in
            pandas; a function of (t, d) features that returns (t, K); or an agent of one run, whose
            `action_probabilities` are taken as they are now.
        log: with propensities.
        estimator: "ips", "snips", "dr", "adaptive" or "betting". None: "adaptive" if the log has
            probabilities and no features and the policy is the same in all rows; otherwise
            "betting" if `logger` is "learned"; otherwise, or if there is a `clip`, "snips".
        observation: (t, K, d) features of each row's arms, for an agent that takes them, such as
            `disjoint(log.features, num_arms)`. If its problem has a layout, (t, p) numbers of the
            visitors will do; None is then the log's own.
        clip: the largest weight, above 0, to which larger ones are cut. It trades noise for bias
            towards rows that are common in the log. Not for "adaptive" and "betting".
        baseline: another policy; the estimate is of the difference. For "adaptive" and "betting".
        reward_range: (low, high), between which all rewards are, those of other logs too. None is
            (0, 1) where they are 0 and 1, some of each, and otherwise unknown.
        logger: "learned" or "frozen", what the log's policy did; None if that is not known.

    Raises:
        TypeError: if the policy is a class, or returns no numbers.
        ValueError: if the log has no propensities, the probabilities do not sum to 1, features
            have another shape, the policy plays no action of the log, a weight overflows, the log
            lacks what the estimator needs, or a reward is outside of its range.

    Warns:
        UserWarning: if the policy has learned, perhaps from this log, if the log's policy did, or
            may have, and the estimator is not for that, if the log lacks actions of the policy, so
            that weights do not average 1, or if one row has a tenth of all weight.

    References:
        Swaminathan and Joachims, "The self-normalized estimator for counterfactual learning"
        (2015). Dudik, Langford and Li, "Doubly robust policy evaluation and learning" (2011).
    """
    check_log(log)
    if log.propensities is None:
        remedy = "record them, or see fit_propensities(log, by=...) and what it assumes"
        raise ValueError(message("log", "have propensities", None, remedy))
    probabilities = _find_probabilities("policy", policy, log, observation)
    with np.errstate(over="ignore"):
        weights = probabilities[np.arange(len(log)), log.actions] / log.propensities
    if not weights.any():
        raise ValueError(message("policy", "play some action of the log", probabilities[0]))
    difference = probabilities
    if baseline is not None:
        difference = difference - _find_probabilities("baseline", baseline, log, observation)
    estimator = _choose_estimator(estimator, logger, difference, log, clip)
    if estimator in WEIGHTED:
        if baseline is not None:
            remedy = "take 'adaptive' or 'betting'"
            raise ValueError(message("baseline", f"be None for {estimator!r}", baseline, remedy))
        _warn_of_learned_logger(log, estimator, logger)
        return _evaluate_weights(estimator, probabilities, weights, log, clip)
    bounds = _check_range(reward_range, log.rewards)
    if estimator == "adaptive":
        interval = estimate_by_arms(difference, log, bounds)
    elif bounds is not None:
        _warn_of_unseen(difference, log, "nothing is known of what they pay", 3)
        interval = estimate_by_betting(difference, log, bounds)
    else:
        raise ValueError(message("reward_range", "be (low, high) for 'betting'", None))
    return PolicyValue(*interval, _find_size(np.minimum(weights, MAX_WEIGHT)), len(log))


def _choose_estimator(
    estimator: str | None, logger: str | None, difference: FloatArray, log: Log, clip: Any
) -> str:
    """Return the estimator that is asked for, or fits the log; refuse one that does not."""
    if logger is not None:
        check_choice("logger", logger, ("learned", "frozen"))
    obstacle = ""
    if log.probabilities is None:
        obstacle = "log has no probabilities"
    elif log.features is not None:
        obstacle = "log has features; leave them out if no policy used them"
    elif np.ptp(difference, axis=0).any():
        obstacle = "the policy is not the same in all rows"
    if estimator is None and clip is None:
        estimator = "adaptive" if not obstacle else "betting" if logger == "learned" else "snips"
    estimator = check_choice("estimator", estimator or "snips", ESTIMATORS)
    if estimator == "adaptive" and obstacle:
        raise ValueError(f"estimator must not be 'adaptive' where {obstacle}.")
    if estimator not in WEIGHTED and clip is not None:
        raise ValueError(message("clip", f"be None for {estimator!r}", clip))
    return estimator


def _evaluate_weights(
    estimator: str, probabilities: FloatArray, weights: FloatArray, log: Log, clip: float | None
) -> PolicyValue:
    """Evaluate a policy by a mean of weighted rows that do not depend on each other."""
    is_played = weights > 0
    largest = np.inf if clip is None else check_real("clip", clip, above=0)
    num_clipped = int(np.count_nonzero(weights > largest))
    _warn_of_missing_actions(np.minimum(weights, MAX_WEIGHT), probabilities, log)
    weights = np.minimum(weights, largest)
    remedy = "give clip=, or leave its row out"
    is_right = np.isfinite(weights)
    chances = np.asarray(log.propensities)
    check_all("log.propensities", is_right, "give finite weights", chances, remedy)
    exponent = np.frexp(weights.max())[1]  # of a power of 2 that scales exactly, so that sums and
    weights = np.ldexp(weights, -exponent)  # squares stay within range
    _warn_of_largest_weight(weights)
    if estimator == "ips":
        values = weights * log.rewards
    elif estimator == "dr":
        predicted = _cross_fit(log)
        played = predicted[np.arange(len(log)), log.actions]
        expected = np.ldexp((probabilities * predicted).sum(axis=1), -exponent)
        values = expected + weights * (log.rewards - played)
    else:
        value = float(weights @ log.rewards / weights.sum())
        values = value + weights * (log.rewards - value) / weights.mean()  # by the delta method
        exponent = 0
    size = _find_size(weights)
    interval = _find_interval(values, log.rewards[is_played], size, exponent)
    return PolicyValue(*interval, size, len(log), num_clipped)


def _check_range(reward_range: Any, rewards: FloatArray) -> tuple[float, float] | None:
    """Return the ends between which rewards are; None if they are not known."""
    if reward_range is None:
        return (0.0, 1.0) if np.array_equal(np.unique(rewards), [0.0, 1.0]) else None
    ends = check_numbers("reward_range", reward_range)
    if ends.shape != (2,) or not -np.inf < ends[0] < ends[1] < np.inf:
        raise ValueError(message("reward_range", "be (low, high), low < high", reward_range))
    low, high = ends.tolist()
    is_within = (rewards >= low) & (rewards <= high)
    check_all("log.rewards", is_within, f"be in reward_range, {low:g} to {high:g}", rewards)
    return low, high


def _find_size(weights: FloatArray) -> float:
    """Return the effective sample size, (sum w)^2 / sum w^2."""
    return float(weights.sum() ** 2 / (weights @ weights))


def replay(
    make_agent: Callable[[], Any],
    log: Log,
    *,
    observation: Any = None,
    values: Any = None,
    costs: Any = None,
    floor: float = 0.0,
) -> PolicyValue:
    """Estimate the mean reward of a learning agent from a log of uniformly random actions.

    The agent acts on each row; where it chooses the logged arm, it observes the reward, and all
    other rows are skipped. On a log of any other policy this is biased, so it is refused. The
    interval is that of one path: on another one the agent may learn other arms, so it covers the
    mean over paths less often than it says, of greedy agents half the time.

    Args:
        make_agent: returns an agent of one run, reset.
        log: whose propensities are 1 / K in every row.
        observation: as for `evaluate`.
        values: (K,) or (t, K) above 0: what a reward of 1 is worth, by arm, and row; None is 1.
            With values or costs, the mean is that of values * reward - costs.
        costs: (K,) or (t, K): what a pull costs; None is 0.
        floor: least probability of an arm, as for the `act` of an agent.

    References:
        Li, Chu, Langford and Wang, "Unbiased offline evaluation of contextual-bandit-based news
        article recommendation algorithms" (2011).
    """
    check_callback("make_agent", make_agent)
    check_log(log)
    chances = log.propensities
    if chances is None or not np.allclose(chances, 1 / log.num_arms):
        wrong = None if chances is None else chances[~np.isclose(chances, 1 / log.num_arms)][0]
        raise ValueError(message("log.propensities", f"be 1 / {log.num_arms} in each row", wrong))
    agent, rewards = make_agent(), []
    if not hasattr(agent, "act"):
        raise TypeError(message("make_agent", "return an agent", agent))
    num_arms = getattr(getattr(agent, "problem", log), "num_arms", log.num_arms)
    if num_arms != log.num_arms:
        raise ValueError(message("make_agent", f"return an agent of {log.num_arms} arms", num_arms))
    if getattr(agent, "num_envs", None) is not None:
        text = f"make_agent must return an agent of one run, got {agent.num_envs} lanes."
        raise ValueError(text)
    _warn_of_learning("agent", agent, stacklevel=3)
    shown: Any = [()] * len(log)
    observation = _find_observation(observation, log, agent)
    if observation is not None:
        shown = observation[:, None]
    shape, floors = (len(log), num_arms), check_act_options(agent, num_arms, None, floor=floor)
    prices = check_act_options(agent, num_arms, len(log), values, costs)
    worth = prices.get("values", 1.0) * log.rewards[:, None] - prices.get("costs", 0.0)
    earned = np.broadcast_to(worth, shape)[np.arange(len(log)), log.actions]
    rows = zip(shown, log.actions.tolist(), log.rewards.tolist(), strict=True)
    for row, (features, action, reward) in enumerate(rows):
        clock = getattr(agent, "lane_decisions", None)
        options = floors | {name: numbers[row] for name, numbers in prices.items()}
        if agent.act(*features, **options) == action:
            agent.observe(action, reward)
            rewards.append(earned[row])
        elif clock is not None:
            agent.lane_decisions = clock  # a skipped row is no decision of a rule with a horizon
    if not rewards:
        raise ValueError(message("log", "have a row with an arm that the agent plays", len(log)))
    played, size = np.array(rewards), float(len(rewards))
    return PolicyValue(*_find_interval(played, played, size), size, len(rewards))


def _find_interval(
    values: FloatArray, rewards: FloatArray, size: float, exponent: int = 0
) -> Interval:
    """Return the mean of values 2^exponent, with ends if the rewards that they rest on are enough.

    Of 400 rows that were worth fewer than 5, 95 % intervals had the value in 68 to 90 % of logs.
    """
    inner = np.frexp(np.abs(values).max())[1]
    interval = mean_interval(np.ldexp(values, -inner))
    if size < MIN_REPLICATIONS or rewards.min() == rewards.max():
        interval = interval._replace(low=np.nan, high=np.nan)
    return Interval(*np.ldexp(interval, exponent + inner).tolist())


def _warn_of_learned_logger(log: Log, estimator: str, logger: str | None) -> None:
    """Warn the caller's caller of a log whose policy learned, or may have.

    The propensities of an arm vary with features, and where a policy learns.
    """
    table = pd.DataFrame({"arm": log.actions, "p": np.asarray(log.propensities).round(6)})
    varies = table.groupby("arm")["p"].nunique().max() > 1
    if logger == "learned" or (logger is None and varies):
        cause = "" if logger else " if its policy learned, logger='learned', and not if 'frozen'"
        text = f"log has propensities that vary for an arm: intervals of {estimator!r} are short"
        remedy = "; 'adaptive' and 'betting' have longer ones."
        warnings.warn(text + cause + remedy, stacklevel=3)


def _warn_of_largest_weight(weights: FloatArray) -> None:
    """Warn the user where one row decides the value."""
    row, share = int(weights.argmax()), float(weights.max() / weights.sum())
    if share > MAX_WEIGHT_SHARE:
        text = (
            f"row {row} of the log, from 0, has {100 * share:.0f} % of all weight: check its "
            "propensity, or give clip=, the largest weight."
        )
        warnings.warn(text, stacklevel=4)


def _warn_of_missing_actions(weights: FloatArray, probabilities: FloatArray, log: Log) -> None:
    """Warn the user where the log lacks actions of the policy.

    Weights average 1 if each action of the policy had the chance that the log says.
    """
    gap, error = float(weights.mean() - 1), float(weights.std() / np.sqrt(len(log)))
    if _warn_of_unseen(probabilities, log, "what they pay is left out of its value", 5):
        return
    if len(log) >= MIN_REPLICATIONS and abs(gap) > MAX_WEIGHT_GAP * error + 0.01:
        text = (
            f"weights average {1 + gap:.3g}, not 1: the log's propensities are not those of its "
            "actions, or it has too few actions of the policy, whose value is then wrong."
        )
        warnings.warn(text, stacklevel=4)


def _warn_of_unseen(probabilities: FloatArray, log: Log, effect: str, stacklevel: int) -> bool:
    """Warn the user where a policy plays arms that have no rows, and say whether it does."""
    unseen = np.flatnonzero((log.counts == 0) & probabilities.any(axis=0))
    labels = tuple(log.arms[arm] for arm in unseen)
    if labels:
        warnings.warn(f"policy plays arms without rows, {labels}: {effect}.", stacklevel=stacklevel)
    return bool(labels)


def _warn_of_learning(name: str, agent: Any, stacklevel: int) -> None:
    """Warn of an agent that has observed rewards."""
    num_pulls = float(np.sum(getattr(agent, "lane_counts", 0)))
    if num_pulls:
        reason = f"{name} has learned from {num_pulls:,.0f} rewards"
        text = f"{reason}: if they are of this log, its value is overestimated."
        warnings.warn(text, stacklevel=stacklevel)


def _find_observation(observation: Any, log: Log, agent: Any) -> FloatArray | None:
    """Return the (t, K, d) features of each row's arms, or (t, p) numbers for a layout, if any."""
    has_layout = getattr(getattr(agent, "problem", None), "layout", None) is not None
    given = log.features if observation is None and has_layout else observation
    if given is None:
        return None
    shown = check_numbers("observation", given, "biuf")
    if has_layout and shown.ndim == 2 and len(shown) == len(log):
        return shown
    if shown.ndim != 3 or shown.shape[:2] != (len(log), log.num_arms):
        condition = f"have shape ({len(log)}, {log.num_arms}, d)"
        raise ValueError(message("observation", condition, shown.shape))
    return shown


def _find_probabilities(name: str, policy: Any, log: Log, observation: Any) -> FloatArray:
    """Return the (t, K) probabilities of a policy on the rows of a log."""
    shape = len(log), log.num_arms
    if isinstance(policy, type):
        raise TypeError(message(name, "be an agent, not its class", policy))
    if hasattr(policy, "action_probabilities"):
        _warn_of_learning(name, policy, stacklevel=4)
        rows = _find_observation(observation, log, policy)
        if rows is None:
            policy = policy.action_probabilities()
        elif hasattr(policy, "evidence"):  # as agents that take many visitors at once
            policy = policy.action_probabilities(rows)
        else:
            policy = [policy.action_probabilities(features) for features in rows]
    elif callable(policy):
        policy = policy(log.features)
    if isinstance(policy, pd.Series | pd.DataFrame):
        labels = policy.axes[-1]
        if labels.is_unique and {*labels} == {*log.arms}:
            policy = policy.reindex(log.arms, axis=policy.ndim - 1)
        elif not labels.equals(pd.RangeIndex(len(labels))):
            condition = f"have the labels {shorten_repr(log.arms)}, or none"
            raise ValueError(message(name, condition, labels.tolist()))
    given = check_numbers(name, policy)
    if given.shape not in (shape[1:], shape):
        condition = f"be probabilities of shape {shape[1:]} or {shape}"
        raise ValueError(message(name, condition, given.shape))
    check_all(name, given >= 0, "be probabilities of at least 0", given)
    return check_probabilities(name, np.broadcast_to(given, shape), shape)


def _cross_fit(log: Log) -> FloatArray:
    """Return (t, K) predicted rewards, each from the rows of the other folds."""
    folds = np.arange(len(log)) % NUM_FOLDS
    x = np.ones((len(log), 1))
    if log.features is not None:  # in units in which years or time stamps are no larger than 1
        spread = log.features.std(axis=0)
        scaled = (log.features - log.features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        x = np.concatenate([x, scaled], axis=1)
    predicted = np.zeros((len(log), log.num_arms))
    for fold in range(NUM_FOLDS):
        for arm in range(log.num_arms):
            rows = (folds != fold) & (log.actions == arm)
            gram = x[rows].T @ x[rows] + 1e-6 * np.eye(x.shape[1])
            weights = np.linalg.solve(gram, x[rows].T @ log.rewards[rows])
            predicted[folds == fold, arm] = x[folds == fold] @ weights
    return predicted
