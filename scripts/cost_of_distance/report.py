"""From the table of distances and regrets to the sections of the page and its picture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from pages.page import Section, Verdict, graded, markdown_table
from scipy import stats

from agents.bayes_optimal import optimal_bracket
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.problem import BanditProblem
from bandit_gym.results.styles import COLOURS
from cost_of_distance.regrets import COSTS, GAINS, OPEN, SAME, pool
from cost_of_distance.settings import ALL, CONTENDERS, MARGIN, NUM_REFERENCES, SHOWN

TITLE = "Does distance matter?"
NEAR = 0.02
"""Distance over noise up to which an agent is called right, as in the adversarial set; and the lean
up to which it is called even."""

FOUND = (SAME, COSTS, GAINS, OPEN)
MOST_PART, MOST_NAMED = 0.75, 3
"""Share of the cases that a claim needs, and cases against it that are named."""

GREY = "#555555"


WHY = """Thompson sampling explores more than pays within so few pulls: the best policy has less
regret (`agents.bayes_optimal`, [optimal](optimal.md)), and whoever follows the same law with less
doubt comes nearer to it. *Two draws agree* is such a law, made on purpose: each probability squared
and their sum brought back to one. *One pull in ten at random* has more doubt. The paper's race and
the ensemble, beside them, are bent in other ways. The world is {world}, where the least regret is
known between two bounds (95 % confidence). Regret that is gained on exact Thompson sampling's; in
brackets as a share of what could have been avoided."""

KNOWN = "Bernoulli, Beta(5, 5)"
BOLD, SHY = "two draws agree", "one pull in ten at random"
"""Laws bent on purpose, to the leader and away from it."""

OTHERS = ("paper's race, δ = 0.7, σ = 0.1", "ensemble of 30")
"""Bent in other ways."""


def describe(found: pd.DataFrame, command: str) -> str:
    """Say what was measured, with which command, and what the words mean."""
    sizes = {len(lost) for lost in found["lost"].dropna()}
    numbers = ", ".join(f"{size:,}" for size in sorted(sizes, reverse=True))
    *first, last = (f"{t:,}" for t in found["horizon"].unique())
    return (
        f"Made by `{command}`, results version "
        f"{RESULTS_VERSION}. {found['agent'].nunique()} agents in {found['world'].nunique()} "
        f"worlds of `fidelity-v1`, looked at after {', '.join(first)} and {last} steps; {numbers} "
        "runs, fewer of agents that cost more.\n\n"
        "*Distance* is the total variation distance (TV) between an agent's law of the next arm "
        "and the exact one, over the noise of counting, on average over histories of exact "
        "Thompson sampling at times spread evenly up to the horizon; of agents that keep what they "
        "drew (SMC, ensembles) that of a single run. *Bold* is how much more probability the agent "
        "gives to its own favourite than the exact law does to its, on the same average, and "
        "*lean* how much more the exact law's favourite gets than it should: who is bold and does "
        "not lean has another favourite. *Lost* is "
        "pseudo-regret less that of exact Thompson sampling, the mean of "
        f"{NUM_REFERENCES} runs in the same worlds with the same noise, as a share of the latter. "
        "Shares are averaged over worlds in each replication: worlds have its seed in common and "
        "are no evidence of their own. Intervals hold together for all agents, kinds of priors and "
        "horizons (95 %, Bonferroni). Stated beforehand: *no difference* is an interval within "
        f"±{MARGIN:.0%}; else one above 0 *costs*, one below 0 *gains*, and the rest is "
        "*undecided*."
    )


def tell(
    found: pd.DataFrame, problems: Mapping[str, BanditProblem], num_scenarios: int
) -> list[Section]:
    """Return the page's sections, the verdicts with the first.

    Args:
        found: a row per agent, world and horizon, of distances and of shares of regret lost.
        problems: the worlds by name.
        num_scenarios: of a bound of the least regret.
    """
    has_failed = found["failure"] != ""
    made, failed = found[~has_failed], found[has_failed]
    known = made[made["world"] == KNOWN]
    optimum = _optimum(known, problems[KNOWN], num_scenarios) if len(known) else []
    pooled = pool(made)
    tables = {kind: markdown_table(_rows(rows)) for kind, rows in pooled.groupby("kind")}
    kinds = [
        Section(f"{kind} priors".capitalize(), _worlds(rows), [tables[kind]])
        for kind, rows in made.groupby("kind", sort=False)
    ]
    told = failed[["agent", "world", "failure"]].drop_duplicates().to_numpy()
    lines = [f"- {agent} in {world}: {failure}" for agent, world, failure in told]
    lines += [
        f"- {each.label}, {' and '.join(each.lacks)} priors: left out, for its time."
        for each in CONTENDERS
        if each.lacks
    ]
    over_all = pooled[pooled["kind"] == ALL]
    return [
        Section(
            "Regret lost against distance",
            body=[_caption(over_all), tables[ALL]],
            pictures={"does-distance-matter": draw(over_all)},
            verdicts=_verdicts(pooled[pooled["kind"] != ALL]),
        ),
        Section(
            "Why less doubt gains",
            WHY.format(world=KNOWN),
            [markdown_table(optimum)] if optimum else [],
        ),
        *kinds,
        Section("What failed or was left out", body=["\n".join(lines)]),
    ]


def _verdicts(made: pd.DataFrame) -> list[Verdict]:
    is_far, first, last = made["tv"] > NEAR, made["horizon"].min(), made["horizon"].max()
    bold, shy = is_far & (made["bold"] > NEAR), is_far & (made["bold"] < -NEAR)
    is_right = made["lean"] > NEAR
    at_first, at_last = made["horizon"] == first, made["horizon"] == last
    return [
        _claim(made[~is_far], f"Within {NEAR} of the truth there is no difference in regret", SAME),
        _claim(made[shy], "Farther away, an agent that is less sure than the truth costs", COSTS),
        _claim(made[bold & at_first], f"One that is surer gains in {first:,} steps", GAINS),
        _claim(made[bold & at_last], f"One that is surer gains in {last:,} steps", GAINS),
        _claim(made[bold & is_right], "One that is surer of the right arm gains", GAINS),
        _rank_verdict(made),
    ]


def _claim(rows: pd.DataFrame, claim: str, expected: str) -> Verdict:
    """Say of how many agents, kinds of priors and horizons a claim holds.

    One that is decided otherwise is against it; what is undecided is neither.
    """
    counts = rows["words"].value_counts()
    evidence = f"of {len(rows)} agents, kinds of priors and horizons: " + ", ".join(
        f"{counts[word]} {word}" for word in FOUND if word in counts
    )
    against = rows[~rows["words"].isin([expected, OPEN])]
    if len(against):
        evidence += "; against it " + ", ".join(
            f"{row.agent}, {row.kind} at {row.horizon:,} ({row.words})"
            for row in against.sort_values("share", key=abs, ascending=False)[
                :MOST_NAMED
            ].itertuples()
        )
    num_for = counts.get(expected, 0)
    if len(against):
        return Verdict(
            claim, "holds in part" if num_for > len(against) else "does not hold", evidence
        )
    is_shown = num_for > 0 and num_for >= MOST_PART * len(rows)
    return Verdict(claim, "holds" if is_shown else "undecided", evidence)


def _rank_verdict(made: pd.DataFrame) -> Verdict:
    """Say whether boldness orders what is lost better than the distance does."""
    words, truths = [], []
    for horizon, rows in made.groupby("horizon"):
        found = {
            name: stats.spearmanr(rows[name], rows["share"]).statistic
            for name in ("tv", "bold", "lean")
        }
        words.append(f"at {horizon:,} " + ", ".join(f"{found[n]:+.2f}" for n in found))
        truths.append(abs(found["bold"]) > abs(found["tv"]))
    claim = "What is lost goes with boldness more than with the distance"
    return Verdict(
        claim,
        graded(*truths),
        f"rank correlations with distance, bold and lean: {'; '.join(words)}",
    )


def _worlds(made: pd.DataFrame) -> str:
    """Name the worlds of a kind, with the exact agent's regret at each horizon."""
    regrets = made.groupby("world", sort=False)[["horizon", "exact"]]
    told = [
        f"{world} ({', '.join(f'{regret:.1f}' for regret in rows.drop_duplicates()['exact'])})"
        for world, rows in regrets
    ]
    return f"Worlds, and what exact Thompson sampling regrets in each: {'; '.join(told)}."


def _rows(pooled: pd.DataFrame) -> list[dict[str, str]]:
    """Return a row per agent, the farthest last, with what is lost at each horizon."""
    last, rows = pooled["horizon"].max(), []
    order = pooled[pooled["horizon"] == last].sort_values("tv")["agent"]
    for agent in order:
        at = pooled[pooled["agent"] == agent].set_index("horizon")
        row = {"agent": agent, "worlds": str(at.loc[last, "worlds"])}
        row |= {f"distance to {t:,}": f"{each.tv:.3f}" for t, each in at.iterrows()}
        row |= {name: f"{at.loc[last, name]:+.3f}" for name in ("bold", "lean")}
        row |= {
            f"lost at {t:,}": f"{each.share:+.0%} [{each.low:+.0%}, {each.high:+.0%}] {each.words}"
            for t, each in at.iterrows()
        }
        rows.append(row)
    return rows


def _optimum(
    rows: pd.DataFrame, problem: BanditProblem, num_scenarios: int
) -> list[dict[str, str]]:
    """Return a row per horizon, in a world whose least regret is known between bounds."""
    found = []
    for horizon, table in rows.groupby("horizon"):
        bounds = optimal_bracket(problem, int(horizon), num_samples=num_scenarios)
        least = bounds.best - bounds.upper, bounds.best - bounds.lower
        exact = table["exact"].iloc[0]
        lost = table.set_index("agent")["lost"].map(np.mean) * exact
        row = {"steps": f"{horizon:,}", "least regret": f"{least[0]:.1f} to {least[1]:.1f}"}
        row |= {"exact Thompson sampling": f"{exact:.1f}"}
        agents = [agent for agent in (BOLD, *OTHERS, SHY) if agent in lost.index]
        found.append(row | {each: _gained(-lost[each], exact, least) for each in agents})
    return found


def _gained(gain: float, exact: float, least: tuple[float, float]) -> str:
    shares = sorted(gain / (exact - end) for end in least)
    return f"{gain:+.1f} ({shares[0]:+.0%} to {shares[1]:+.0%})"


def draw(pooled: pd.DataFrame) -> Figure:
    """Draw what is lost against distance at the last horizon, a named mark for each of seven."""
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    axes = figure.subplots()
    means = pooled[pooled["horizon"] == pooled["horizon"].max()].set_index("agent")
    for agent, side in SHOWN.items():
        if agent not in means.index:
            continue
        point = means.loc[agent]
        colour = COLOURS[0] if point.bold > NEAR else COLOURS[1] if point.bold < -NEAR else GREY
        ends = [[point.share - point.low], [point.high - point.share]]
        axes.errorbar(point.tv, point.share, ends, fmt="o", color=colour, capsize=2, lw=1)
        axes.annotate(
            agent, (point.tv, point.share), xytext=(7 * side, 4), textcoords="offset points",
            ha="left" if side > 0 else "right", color=colour, fontsize="small",
        )  # fmt: skip
    axes.axhline(0, color="#888888", lw=0.8, ls=":")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("distance from exact Thompson sampling (TV over noise)")
    axes.set_ylabel("regret lost, of exact Thompson sampling's")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _caption(pooled: pd.DataFrame) -> str:
    """Say what the picture shows; what came of it is for the verdicts."""
    last = int(pooled["horizon"].max())
    return (
        f"Regret lost in {last:,} steps against distance, averages over all worlds with "
        "their intervals. Blue is surer than the exact law, red less sure, grey neither; particles "
        "that have collapsed are sure of the wrong arm. An agent that failed in a world is "
        "averaged over the others (the table says over how many)."
    )
