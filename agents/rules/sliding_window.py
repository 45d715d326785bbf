"""Any rule on the last w rewards of a lane, for worlds that change.

Letters: K arms, N lanes, w rewards kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from agents.base import Agent, build
from agents.exact_thompson import ExactThompson
from agents.rules.greedy import EpsilonGreedy, Greedy
from agents.rules.top_two import TopTwoThompson
from agents.rules.ucb import KLUCB, UCB1, BayesUCB
from bandit_gym.checks import check_choice, check_integer, message
from bandit_gym.problem import BanditProblem

RULES: Mapping[str, type[Agent]] = {
    "exact": ExactThompson,
    "top_two": TopTwoThompson,
    "bayes_ucb": BayesUCB,
    "ucb1": UCB1,
    "kl_ucb": KLUCB,
    "greedy": Greedy,
    "epsilon_greedy": EpsilonGreedy,
}
"""Agents that know counts and sums alone, and no horizon, by their short names."""

MOST_REWARDS = 10**8
"""That all lanes keep: 1.2 GB."""


class SlidingWindow(Agent):
    """Let another agent know the last w rewards of each lane, and nothing older.

    With "exact" this is SW-TS, with "ucb1" SW-UCB. Older rewards leave the statistics one by one,
    so that the prior is all that is known of an arm that was not pulled for w steps.

    Arguments:
        problem: likelihood and prior.
        window: w >= 1.
        rule: of that agent: one of RULES, or a dict of that as `name` and of options.

    References:
        Garivier and Moulines (2011), SW-UCB; Trovo et al. (2020), "Sliding-window Thompson sampling
        for non-stationary settings".
    """

    state_names = ("_actions", "_rewards", "_places", "_given", "_agent")

    def __init__(
        self,
        problem: BanditProblem,
        *,
        window: int = 100,
        rule: str | Mapping[str, Any] = "exact",
    ) -> None:
        super().__init__(problem)
        self.window = check_integer("window", window, minimum=1, maximum=MOST_REWARDS)
        self.rule = rule
        self._agent = make_rule(problem, rule)
        self._agent._let_forget()
        self.has_exact_law = self._agent.has_exact_law

    def warm_start(self, counts: Any, sums: Any) -> None:
        """Add earlier data to every lane, which stay as the prior does: totals have no order."""
        self._require_reset()
        before = self.lane_sums.copy()
        super().warm_start(counts, sums)
        self._given += self.lane_sums - before

    def diagnostics(self) -> dict[str, Any]:
        """Say how the last `act` went, as the rule says it."""
        return self._agent.diagnostics()

    def _restart(self, mask: np.ndarray) -> None:
        if mask.all():
            shape = (self.num_lanes, self.window)
            most = MOST_REWARDS // self.window
            check_integer("num_envs", self.num_lanes, minimum=1, maximum=most)
            self._actions, self._rewards = np.full(shape, -1, dtype=np.int32), np.zeros(shape)
            self._places = np.zeros(self.num_lanes, dtype=np.int64)
            self._given = np.zeros(self.lane_sums.shape)
            self._agent._diagnostics = {}
        self._actions[mask], self._rewards[mask], self._places[mask] = -1, 0.0, 0
        self._given[mask] = 0.0
        self._lend_state()
        self._agent._restart(mask)

    def _count(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        super()._count(lanes, actions, rewards)
        places = self._places[lanes]
        gone = self._actions[lanes, places].astype(np.int64)
        self._actions[lanes, places], self._rewards[lanes, places] = actions, rewards
        self._places[lanes] = (places + 1) % self.window
        is_full = gone >= 0
        if is_full.any():
            self._uncount(lanes[is_full], gone[is_full])

    def _uncount(self, lanes: np.ndarray, arms: np.ndarray) -> None:
        """Take one reward of an arm from each lane; sums are added anew, for rounding adds up."""
        is_arm = self._actions[lanes] == arms[:, None]
        self.lane_counts[lanes, arms] -= 1
        paid = np.where(is_arm, self._rewards[lanes], 0.0).sum(axis=1)
        self.lane_sums[lanes, arms] = self._given[lanes, arms] + paid

    def _choose(self) -> np.ndarray:
        self._lend_state()
        return self._agent._choose()

    def _law(self) -> np.ndarray:
        self._lend_state()
        return self._agent._law()

    def _held(self) -> Any:
        self._lend_state()
        return self._agent._held()

    def _aside(self) -> Self:
        twin = super()._aside()
        twin._agent = self._agent._aside()
        return twin

    def _lend_state(self) -> None:
        """Let the rule act on the statistics, and draw from the generator, of this agent."""
        agent = self._agent
        agent.lane_counts, agent.lane_sums = self.lane_counts, self.lane_sums
        agent.num_envs, agent._lanes, agent._rng = self.num_envs, self._lanes, self._rng


def make_rule(problem: BanditProblem, rule: str | Mapping[str, Any]) -> Any:
    """Build the agent that a name, or a dict of a name and options, tells of.

    Raises:
        TypeError: if it is neither.
        ValueError: if the name or an option is unknown, or if it forgets in its own way too.
    """
    named: Any = {"name": rule} if isinstance(rule, str) else rule
    if not isinstance(named, Mapping) or "name" not in named:
        raise TypeError(message("rule", "be a name, or a dict with the key 'name'", rule))
    if "discount" in named:
        raise ValueError(message("rule", "have no discount beside a window", rule))
    options = {key: value for key, value in named.items() if key != "name"}
    name = check_choice("rule", named["name"], RULES)
    return build(name, RULES[name], problem, options)
