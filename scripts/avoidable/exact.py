"""How much of the regret of common rules could have been avoided, exactly, and where it is most."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from pages.page import Section, markdown_table

from agents.bayes_optimal import expected_regret, optimal_regret
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, IndependentPrior, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

PRIORS: dict[str, IndependentPrior] = {
    "uniform": Beta(1.0, 1.0),
    "alike": TruncatedNormal(0.5, 0.1),
    "mostly poor": Beta(1.0, 9.0),
    "rare stars": Mixture((Beta(2.0, 8.0), Beta(18.0, 2.0)), (0.95, 0.05)),
}
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "Thompson": ("thompson", {}),
    "Bayes-UCB": ("bayes_ucb", {}),
    "KL-UCB": ("kl_ucb", {}),
    "UCB1": ("ucb1", {}),
    "greedy": ("greedy", {}),
    "uniform play": ("random", {}),
}
MEANS, STRENGTHS = (0.05, 0.2, 0.5, 0.8, 0.95), (0.5, 2.0, 8.0, 32.0)
"""Of beta priors, whose strength is the sum of their two parameters."""

TEXT = """Regret over the least possible, under the prior that the rules are told; both exact, by \
recursion over the table of counts. 1.00 is the Bayes-optimal policy. *Avoidable* is the share of \
Thompson sampling's regret that the best policy does not have. *Alike*: normal around 0.5 with \
deviation 0.1, cut to [0, 1]. *Mostly poor*: Beta(1, 9). *Rare stars*: Beta(18, 2) for one arm in \
twenty, Beta(2, 8) for the others."""

WORST = """Two arms, beta priors of all kinds, T = {horizon}: Thompson sampling's regret over the \
least possible."""


def problem(prior: IndependentPrior, num_arms: int) -> BanditProblem:
    return BanditProblem(Bernoulli(), prior, num_arms)


def compare(sizes: Mapping[str, int]) -> Section:
    """Tabulate rules over numbers of arms, horizons and priors."""
    longest = {2: sizes["two"], 3: sizes["three"], 5: sizes["five"]}
    rows = [
        row for each in product(PRIORS, longest) for row in _rows(*each, longest=longest[each[1]])
    ]
    return Section("How much could have been avoided", TEXT, [markdown_table(rows)])


def _rows(name: str, num_arms: int, longest: int) -> list[dict[str, str]]:
    """Return a row for each of three horizons; these rules do not know theirs."""
    world = problem(PRIORS[name], num_arms)
    regrets = {
        label: expected_regret(world, rule, longest, **options)
        for label, (rule, options) in RULES.items()
    }
    rows = []
    for horizon in sorted({max(1, longest // 5), max(1, longest // 2), longest}):
        least = optimal_regret(world, horizon)
        ratios = {label: curve[horizon - 1] / least for label, curve in regrets.items()}
        rows.append(
            {"prior": name, "K": str(num_arms), "T": str(horizon), "least regret": f"{least:.4f}"}
            | {label: f"{ratio:.2f}" for label, ratio in ratios.items()}
            | {"avoidable": f"{max(0.0, 1 - 1 / ratios['Thompson']):.0%}"}
        )
    return rows


def find_worst(sizes: Mapping[str, int]) -> Section:
    """Tabulate Thompson sampling over beta priors."""
    horizon = sizes["worst"]
    rows, ratios = [], {}
    for strength in STRENGTHS:
        cells = {"strength": f"{strength:g}"}
        for mean in MEANS:
            ratios[strength, mean] = ratio = _ratio(strength, mean, horizon)
            cells[f"mean {mean:g}"] = f"{ratio:.2f}"
        rows.append(cells)
    strength, mean = max(ratios, key=lambda key: ratios[key])
    found = (
        f"Of these it is worst at mean {mean:g} and strength {strength:g}, "
        f"{ratios[strength, mean]:.2f} times the least, and best at {min(ratios.values()):.2f}. "
        "Longer horizons are worse in every row above; for ten arms see the last section."
    )
    text = WORST.format(horizon=horizon)
    return Section("Where Thompson sampling is worst", text, [markdown_table(rows), found])


def _ratio(strength: float, mean: float, horizon: int) -> float:
    world = problem(Beta(strength * mean, strength * (1 - mean)), 2)
    played = expected_regret(world, "thompson", horizon)[-1]
    return float(played / optimal_regret(world, horizon))
