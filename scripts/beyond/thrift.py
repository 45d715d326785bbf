"""Samples spent and distance left: the paper's stop beside the self-normalised one."""

from __future__ import annotations

import pandas as pd
from distances.measure import Plan, measure_problem
from distances.settings import Setting
from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import draw_strips, new_panels
from pages.page import Section, Verdict, graded, markdown_table

STEPS = (0, 30, 300, 3000)
PROBLEM_NAMES = (
    "Bernoulli, Beta(5, 5)",
    "Bernoulli, N(0.5, 0.1) cut to [0, 1]",
    "Bernoulli, dependent, dimension 10",
    "exponential, N(1, 0.3) cut to [0, 3]",
    "Gaussian, N(0, 1)",
    "Poisson, N(3, 0.5) cut to [0, 6]",
)
PAPER, LOOSE = "paper, δ = σ = 0.1", "paper, δ = 0.1, σ = 0.3"
OURS, MATCHED = "self-normalised", "self-normalised, matched"
SETTINGS = (  # cheap ones decide more often
    Setting(PAPER, "racing_paper", {"delta": 0.1, "sigma": 0.1}),
    Setting(LOOSE, "racing_paper", {"delta": 0.1, "sigma": 0.3}),
    Setting(OURS, "racing", {"proposal": "reference"}, num_decisions=3000),
    Setting(MATCHED, "racing", num_decisions=100_000),
)
ENOUGH = 10
"""Effective samples below which a decision counts as reckless."""


def reproduce(task: Task) -> Section:
    """Measure four settings of the race on a handful of histories."""
    steps = tuple(step for step in STEPS if step <= task.sizes["horizon"])
    share = task.sizes["decisions"] / SETTINGS[0].num_decisions
    plan = Plan(SETTINGS, steps, share, seed=7, tolerance=0.002 / share**0.5)
    results = pd.concat([measure_problem(name, plan) for name in PROBLEM_NAMES], ignore_index=True)
    groups = results.groupby(["problem", "step"], sort=False)
    return Section(
        title="Thrift: where the paper's stop spends too much, and where too little",
        text="Histories are played by exact Thompson sampling; each setting decides "
        f"{task.sizes['decisions']} times at each (self-normalised three tenths of that, "
        "and ten times as often with the matched proposal). Samples / effective samples / "
        "excess of the total variation distance over its noise floor. The paper's stop has the "
        "printed threshold and the running-maximum scale; the first three settings have the "
        "paper's proposal, the last the matched one.",
        pictures={"thrift": _draw(results)},
        caption="Samples that each setting spends, and the distance that is left: a dot for each "
        "history, a stroke at their median.",
        body=[markdown_table([_row(name, step, group) for (name, step), group in groups])],
        verdicts=_verdicts(results),
    )


def _row(name: str, step: int, group: pd.DataFrame) -> dict[str, str]:
    return {"problem": name, "t": str(step)} | {
        row.setting: f"{row.num_samples:.0f} / {row.effective_sample_size:.0f} / {row.excess:+.3f}"
        for row in group.itertuples()
    }


def _verdicts(results: pd.DataFrame) -> list[Verdict]:
    paper, ours, matched = (_of(results, label) for label in (PAPER, OURS, MATCHED))
    is_cautious = (paper["num_samples"] > 100) & (matched["excess"] < 0.01)
    is_reckless = paper["effective_sample_size"] < ENOUGH
    columns = ["num_samples", "effective_sample_size"]
    spent, needed = (rows.loc[is_cautious, columns].mean() for rows in (paper, matched))
    few, honest, cheap = (rows.loc[is_reckless, columns].mean() for rows in (paper, ours, matched))
    return [
        Verdict(
            "the paper's stop spends hundreds of samples where ten or twenty do",
            graded(is_cautious.any()),
            f"{is_cautious.sum()} of {len(paper)} histories: {spent['num_samples']:.0f} samples on "
            f"average, where the matched proposal takes {needed['num_samples']:.0f} and is within "
            "0.01 of its noise floor",
        ),
        Verdict(
            f"elsewhere it stops below {ENOUGH} effective samples, and is off for it",
            graded(is_reckless.any()),
            "; ".join(_worst(results, label) for label in (PAPER, LOOSE)),
        ),
        Verdict(
            "with the paper's proposal the self-normalised stop is honest about what that takes",
            graded(is_reckless.any(), otherwise="undecided"),
            f"on the {is_reckless.sum()} histories where {PAPER} is below {ENOUGH} effective "
            f"samples it takes {honest['num_samples']:.0f} samples instead of "
            f"{few['num_samples']:.0f}, for {honest['effective_sample_size']:.1f} effective ones "
            f"instead of {few['effective_sample_size']:.1f}; the matched proposal takes "
            f"{cheap['num_samples']:.0f}",
        ),
        Verdict(
            "the self-normalised stop with the matched proposal is within 0.02 of its noise floor "
            "everywhere",
            graded(matched["excess"].max() <= 0.02),
            f"largest excess {matched['excess'].max():.3f}, mean samples "
            f"{matched['num_samples'].mean():.0f}, largest {matched['num_samples'].max():.0f}",
        ),
    ]


def _of(results: pd.DataFrame, label: str) -> pd.DataFrame:
    return results[results["setting"] == label].reset_index(drop=True)


def _worst(results: pd.DataFrame, label: str) -> str:
    rows = _of(results, label)
    few = rows[rows["effective_sample_size"] < ENOUGH]
    if few.empty:
        return f"{label}: none of {len(rows)} histories"
    worst = few.loc[few["excess"].idxmax()]
    return (
        f"{label}: {len(few)} of {len(rows)} histories, largest excess {worst['excess']:.3f} at "
        f"{worst['effective_sample_size']:.1f} effective samples of {worst['num_samples']:.0f} "
        f"({worst['problem']}, t = {worst['step']})"
    )


def _draw(results: pd.DataFrame) -> Figure:
    figure, panels = new_panels(["samples per decision", "distance left"], 1)
    columns = {"num_samples": "samples", "excess": "TV over noise"}
    for axes, (column, label) in zip(panels, columns.items(), strict=True):
        draw_strips(axes, {s.label: _of(results, s.label)[column].to_numpy() for s in SETTINGS})
        axes.set_xlabel(label)
    panels[0].set_xscale("log")
    return figure
