"""From the table that `fidelity.py` measured to the sections of its page."""

from __future__ import annotations

import pandas as pd
from pages.page import Section, Verdict, graded, markdown_table
from scipy import stats

from bandit_gym.files import RESULTS_VERSION
from distances.measure import FAR

LARGEST_EXCESS = 0.02
FEWEST_EFFECTIVE = 100
LARGEST_RUN_EXCESS = 0.05
CLAIM_SETTING = "racing printed, delta=0.1, sigma=0.1"
MATCHED_SETTING = "racing matched, self-normalised"
MOVES_SETTING = "smc with moves, 1000 particles"
PARTICLES_SETTING = "smc, 1000 particles"
MOST_FALSE_FLAGS = 0.02
FEWEST_TRUE_FLAGS, MOST_NEAR_FLAGS = 0.9, 0.1

PROMISES = """An agent is *right* where its excess is at most 0.02. What is promised of that:

- **Promised.** Exact Thompson sampling and Racing with matched proposals are right wherever they
  decide without a flag, on these histories and on those of [the adversarial set](adversarial.md).
- **Flagged.** `diagnostics()["is_unreliable"]` is True for a decision that may not be right: a race
  that misses a part of the answer or rests on too few samples, particles that collapsed, a chain
  that mixes slowly or may be in the wrong one of two camps, a table that misses its promise. Racing
  and SMC as the paper sets them promise no distance at all; that they say so where they are far off
  is what is measured here.
- **Refused.** What an agent cannot treat it declines in one sentence, which names an agent that
  can; the points at which that happened are listed at the end."""
"""What the page says beside its numbers."""


def describe(results: pd.DataFrame, scale: float) -> str:
    """Say what the page's numbers are, and which command made them."""
    low, high = int(results["decisions"].min()), int(results["decisions"].max())
    decisions = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return (
        f"Made by `python scripts/fidelity.py --scale {scale:g}`, results version "
        f"{RESULTS_VERSION}. Decisions per point: {decisions}. Seed {results['seed'].iloc[0]}. "
        "*Excess* is the total variation (TV) distance between an agent's action frequencies and "
        "the exact action probabilities, less the distance that as many decisions by exact "
        f"Thompson sampling would show on average.\n\n{PROMISES}"
    )


def tell(results: pd.DataFrame) -> list[Section]:
    """Return the page's sections, the verdicts with the first."""
    refused = results[results["failure"].notna()]
    results = results[results["failure"].isna()]
    by_step = _pivot(results, "step").sort_index(axis=1)
    verdicts = (
        *(_racing_verdict, _law_verdict, _matched_verdict, _exact_verdict, _moves_verdict),
        *(_false_flags_verdict, _true_flags_verdict),
    )
    return [
        Section(
            title="Overall: all problems and steps",
            body=[_markdown(_by_setting(results))],
            verdicts=[verdict(results) for verdict in verdicts],
        ),
        Section("Mean excess by step", body=[_markdown(by_step)]),
        Section("Mean excess by problem", body=[_markdown(_pivot(results, "problem").T)]),
        Section("Not measured", _refusals(refused)),
    ]


def _racing_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether Racing as the paper sets it is close wherever it has enough samples."""
    rows = results[results["setting"] == CLAIM_SETTING]
    enough = rows[rows["effective_sample_size"] > FEWEST_EFFECTIVE]
    claim = (
        f"TV at most {LARGEST_EXCESS} above its noise floor for {CLAIM_SETTING} where the weights' "
        f"effective sample size is above {FEWEST_EFFECTIVE} ({len(enough)} of {len(rows)} points)"
    )
    if enough.empty:
        return Verdict(claim, "undecided", "no such point")
    worst, where = _largest(enough, "excess")
    num_beyond = int((enough["tv"] > enough["floor_high"]).sum())
    noise = (enough["floor_high"] - enough["floor"]).mean()
    return Verdict(
        claim,
        graded(worst <= LARGEST_EXCESS),
        f"the largest excess is {where}, where one point's noise is {noise:.4f} (95 %); "
        f"{num_beyond} points are beyond it",
    )


def _largest(rows: pd.DataFrame, column: str) -> tuple[float, str]:
    """Return the largest value of a column, and the same in words with its problem and step."""
    row = rows.loc[rows[column].idxmax()]
    return row[column], f"{row[column]:.4f} ({row['problem']}, step {row['step']})"


def _law_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether races of fixed length follow the law of importance resampling."""
    rows = results.dropna(subset=["resampling_tv"])
    claim = "A race of fixed length is a draw from its normalised importance weights"
    return _noise_verdict(claim, rows["resampling_tv"] > rows["resampling_floor_high"])


def _noise_verdict(claim: str, is_beyond: pd.Series) -> Verdict:
    """Say whether a claim holds, from which points are beyond the upper 2.5 % of their noise."""
    num_beyond, most = int(is_beyond.sum()), stats.binom.ppf(0.999, len(is_beyond), 0.025)
    return Verdict(
        claim,
        graded(num_beyond <= most),
        f"at {num_beyond} of {len(is_beyond)} points the distance is beyond the 97.5 % quantile of "
        f"its noise, where up to {most:.0f} may be by chance (at the level 0.001)",
    )


def _matched_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether matched proposals with the self-normalised stop are close everywhere."""
    rows = results[results["setting"] == MATCHED_SETTING]
    worst, where = _largest(rows, "excess")
    samples = rows.groupby("problem", sort=False)["num_samples"].mean()
    most = samples.groupby(samples.index.str.contains("dependent")).agg(["max", "idxmax"])
    listed = "; ".join(f"{row['max']:.0f} ({row['idxmax']})" for _, row in most.iterrows())
    costs = results.pivot_table("microseconds", "problem", "setting")
    ratios = costs[CLAIM_SETTING] / costs[MATCHED_SETTING]
    gain = costs[CLAIM_SETTING].mean() / costs[MATCHED_SETTING].mean()
    return Verdict(
        f"TV at most {LARGEST_EXCESS} above its noise floor for {MATCHED_SETTING} everywhere",
        graded(worst <= LARGEST_EXCESS),
        f"the largest excess is {where}. Most samples per decision, averaged over the steps of a "
        f"problem, with independent and dependent arms: {listed}. A step takes {gain:.1f} times "
        f"less time than with {CLAIM_SETTING}; from {ratios.min():.1f} times ({ratios.idxmin()}) "
        f"to {ratios.max():.1f} ({ratios.idxmax()})",
    )


def _exact_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether exact Thompson sampling is the truth to within its noise."""
    rows = results[results["family"] == "exact"]
    claim = "Exact Thompson sampling by conjugacy, grid and Gibbs is within noise"
    return _noise_verdict(claim, rows["tv"] > rows["floor_high"])


def _moves_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether a run of SMC with moves stays close to the truth."""
    worst, where = _largest(results[results["setting"] == MOVES_SETTING], "single_run_excess")
    return Verdict(
        f"The law of a single run of {MOVES_SETTING} is within a TV of {LARGEST_RUN_EXCESS} of the "
        "truth on average",
        graded(worst <= LARGEST_RUN_EXCESS),
        f"the largest average is {where}",
    )


def _false_flags_verdict(results: pd.DataFrame) -> Verdict:
    """Say how often agents that are right everywhere say that they are unsure."""
    is_judged = (results["family"] == "exact") | (results["setting"] == MATCHED_SETTING)
    shares = results[is_judged].groupby("setting", sort=False)["is_unreliable"].mean()
    return Verdict(
        f"Exact and matched agents are flagged in under {MOST_FALSE_FLAGS:.0%} of decisions",
        graded(*(shares < MOST_FALSE_FLAGS)),
        "; ".join(f"{label}: {share:.2%}" for label, share in shares.items()),
    )


def _true_flags_verdict(results: pd.DataFrame) -> Verdict:
    """Say whether the paper's agents are flagged where they are far from the truth, and not near.

    For SMC, whose particles serve for a run, it is the runs that are far or near.
    """
    columns = ["far", "far_flagged", "near", "near_flagged"]
    sums = results.groupby("setting", sort=False)[columns].sum()
    sums = sums.loc[[CLAIM_SETTING, PARTICLES_SETTING]]
    caught, cried = sums["far_flagged"] / sums["far"], sums["near_flagged"] / sums["near"]
    evidence = (
        f"{label}: {caught[label]:.1%} of {sums['far'][label]:.0f} and {cried[label]:.1%} of "
        f"{sums['near'][label]:.0f}"
        for label in sums.index
    )
    return Verdict(
        "The paper's agents are flagged in at least nine in ten decisions whose TV exceeds the "
        f"noise by {FAR}, and in under one in ten of those within the noise",
        graded(*(caught >= FEWEST_TRUE_FLAGS), *(cried < MOST_NEAR_FLAGS)),
        "; ".join(evidence),
    )


def _refusals(rows: pd.DataFrame) -> str:
    """List the points at which an agent refused to decide."""
    lines = []
    for (problem, setting), group in rows.groupby(["problem", "setting"], sort=False):
        steps = ", ".join(map(str, group["step"]))
        lines.append(f"- {setting} on {problem}, step {steps}: {group['failure'].iloc[0]}")
    return "\n".join(lines) or "Every agent decided everywhere."


def _by_setting(results: pd.DataFrame) -> pd.DataFrame:
    is_beyond = results["tv"] > results["floor_high"]
    columns = {
        "mean excess": ("excess", "mean"),
        "largest excess": ("excess", "max"),
        "share of points beyond noise": ("is_beyond", "mean"),
        "mean excess of a single run": ("single_run_excess", "mean"),
        "samples per decision": ("num_samples", "mean"),
        "effective samples": ("effective_sample_size", "mean"),
        "share flagged": ("is_unreliable", "mean"),
        "microseconds per step": ("microseconds", "mean"),
    }
    groups = results.assign(is_beyond=is_beyond).groupby("setting", sort=False)
    return groups.agg(**columns)


def _pivot(results: pd.DataFrame, column: str) -> pd.DataFrame:
    return results.pivot_table("excess", "setting", column, sort=False)


def _markdown(table: pd.DataFrame) -> str:
    """Return a table with its index as the first column; missing numbers are left empty."""
    cells = table.map("{:.4g}".format).where(table.notna(), "").rename(columns=str)
    return markdown_table(cells.reset_index().to_dict("records"))
