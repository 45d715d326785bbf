"""Samples spent and distance left: the paper's stop beside the self-normalised one."""

from __future__ import annotations

import zlib
from pathlib import Path

import pandas as pd
from distances.measure import measure, play
from distances.settings import PROBLEMS, Setting
from matplotlib.figure import Figure
from numpy.random import SeedSequence
from paper import common
from paper.common import Section, Verdict

from bandit_gym.experiments.execution import Workers
from bandit_gym.results.plots import styles
from beyond.settings import Scale

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
    Setting(PAPER, "racing", {"delta": 0.1, "sigma": 0.1}),
    Setting(LOOSE, "racing", {"delta": 0.1, "sigma": 0.3}),
    Setting(OURS, "racing", {"stopping": "self-normalised"}, num_decisions=3000),
    Setting(
        MATCHED,
        "racing",
        {"stopping": "self-normalised", "proposal": "matched"},
        num_decisions=100_000,
    ),
)
ENOUGH = 10
"""Effective samples below which a decision counts as reckless."""


def reproduce(scale: Scale, folder: Path, workers: Workers) -> Section:
    """Measure four settings of the race on a handful of histories."""
    del workers
    parts = [_measure(name, scale) for name in PROBLEM_NAMES]
    results = pd.concat(parts, ignore_index=True)
    picture = common.save_png(_draw(results), folder, "thrift")
    return Section(
        title="Where the paper's stop spends too much, and where too little",
        choices="Histories are played by exact Thompson sampling; each setting decides "
        f"{scale.size('thrift', 'decisions')} times at each (self-normalised three tenths of that, "
        "and ten times as often with the matched proposal). Samples / effective samples / "
        "excess of the total variation distance over its noise floor. The paper's stop has the "
        "printed threshold and the running-maximum scale; the first three settings have the "
        "paper's proposal, the last the matched one.",
        body="\n\n".join([picture, _table(results)]),
        verdicts=_verdicts(results),
    )


def _measure(name: str, scale: Scale) -> pd.DataFrame:
    problem = PROBLEMS[name]
    root = SeedSequence(7, spawn_key=(zlib.crc32(name.encode()),))
    history_seed, *seeds = root.spawn(1 + len(SETTINGS))
    decisions = scale.size("thrift", "decisions")
    share = decisions / SETTINGS[0].num_decisions
    tolerance = min(0.05, 0.002 / share**0.5) if "dependent" in name else None
    steps = tuple(step for step in STEPS if step <= scale.horizon("thrift"))
    histories = play(problem, steps, history_seed, tolerance=tolerance)
    rows = []
    for setting, seed in zip(SETTINGS, seeds, strict=True):
        rows += measure(problem, setting, histories, share, seed)
    return pd.DataFrame(rows).assign(problem=name)


def _table(results: pd.DataFrame) -> str:
    header = ["problem", "t", *(setting.label for setting in SETTINGS)]
    groups = results.groupby(["problem", "step"], sort=False)
    return common.markdown_table(header, [
        [name, str(step), *(_cell(group, setting.label) for setting in SETTINGS)]
        for (name, step), group in groups
    ])  # fmt: skip


def _cell(group: pd.DataFrame, label: str) -> str:
    row = group[group["setting"] == label].iloc[0]
    samples, size = row["num_samples"], row["effective_sample_size"]
    return f"{samples:.0f} / {size:.0f} / {row['excess']:+.3f}"


def _verdicts(results: pd.DataFrame) -> tuple[Verdict, ...]:
    paper, ours, matched = (_of(results, label) for label in (PAPER, OURS, MATCHED))
    is_cautious = (paper["num_samples"] > 100) & (matched["excess"] < 0.01)
    is_reckless = paper["effective_sample_size"] < ENOUGH
    return (
        Verdict(
            "the paper's stop spends hundreds of samples where ten or twenty do",
            "holds" if is_cautious.any() else "does not hold",
            f"{is_cautious.sum()} of {len(paper)} histories: "
            f"{_mean(paper, 'num_samples', is_cautious):.0f} samples on average, where the matched "
            f"proposal takes {_mean(matched, 'num_samples', is_cautious):.0f} and is within 0.01 "
            "of its noise floor",
        ),
        Verdict(
            f"elsewhere it stops below {ENOUGH} effective samples, and is off for it",
            "holds" if is_reckless.any() else "does not hold",
            "; ".join(_worst(results, label) for label in (PAPER, LOOSE)),
        ),
        Verdict(
            "with the paper's proposal the self-normalised stop is honest about what that takes",
            "holds" if is_reckless.any() else "undecided",
            f"on the {is_reckless.sum()} histories where {PAPER} is below {ENOUGH} effective "
            f"samples it takes {_mean(ours, 'num_samples', is_reckless):.0f} samples instead of "
            f"{_mean(paper, 'num_samples', is_reckless):.0f}, for "
            f"{_mean(ours, 'effective_sample_size', is_reckless):.1f} effective ones instead of "
            f"{_mean(paper, 'effective_sample_size', is_reckless):.1f}; the matched proposal "
            f"takes {_mean(matched, 'num_samples', is_reckless):.0f}",
        ),
        Verdict(
            "the self-normalised stop with the matched proposal is within 0.02 of its noise floor "
            "everywhere",
            "holds" if matched["excess"].max() <= 0.02 else "does not hold",
            f"largest excess {matched['excess'].max():.3f}, mean samples "
            f"{matched['num_samples'].mean():.0f}, largest {matched['num_samples'].max():.0f}",
        ),
    )


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


def _mean(rows: pd.DataFrame, column: str, chosen: pd.Series) -> float:
    return float(rows.loc[chosen, column].mean())


def _draw(results: pd.DataFrame) -> Figure:
    figure, (distance, sizes) = common.new_panels(["distance left", "samples that count"], 2)
    for setting, style in zip(SETTINGS, styles(), strict=False):
        rows = _of(results, setting.label)
        look = {"color": style["color"], "label": setting.label, "alpha": 0.7}
        distance.plot(rows["num_samples"], rows["excess"].clip(lower=0), "o", **look)
        sizes.plot(rows["num_samples"], rows["effective_sample_size"], "o", **look)
    distance.set(xscale="log", xlabel="samples per decision", ylabel="excess TV distance")
    sizes.axline((1, 1), slope=1, color="0.6", linewidth=0.8)
    sizes.set(xscale="log", yscale="log", xlabel="samples per decision")
    sizes.set_ylabel("effective samples")
    handles, labels = distance.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    return figure
