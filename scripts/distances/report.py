"""From the table that `fidelity.py` measured to one Markdown page and one picture."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

LARGEST_EXCESS = 0.02
FEWEST_EFFECTIVE = 100
LARGEST_RUN_EXCESS = 0.05
CLAIM_SETTING = "racing printed, delta=0.1, sigma=0.1"
MATCHED_SETTING = "racing matched, self-normalised"
MOVES_SETTING = "smc with moves, 1000 particles"
NUM_COLUMNS = 4
TICKS = (0, 0.02, 0.05, 0.1, 0.2, 0.5)

STYLES = {
    "racing, printed threshold": ("#0072b2", "o"),
    "racing, shortened threshold": ("#009e73", "v"),
    "racing, fixed length": ("#56b4e9", "s"),
    "racing, matched proposal": ("#e69f00", "P"),
    "smc": ("#d55e00", "^"),
    "smc with moves": ("#d55e00", "v"),
    "exact": ("#000000", "*"),
    "exact, reference prior": ("#cc79a7", "D"),
}
SPARE_STYLES = [("#999999", "X"), ("#f0e442", "h")]


def write_report(results: pd.DataFrame, path: Path) -> None:
    """Write the verdict and the tables to a Markdown file."""
    refused = results[results["failure"].notna()]
    results = results[results["failure"].isna()]
    parts = [
        "# Fidelity: distance from exact Thompson sampling, and its cost",
        f"Decisions per point: {_range(results['decisions'])}. Seed {results['seed'].iloc[0]}. "
        "*Excess* is the total variation (TV) distance between an agent's action frequencies and "
        "the exact action probabilities, less the distance that as many decisions by exact "
        "Thompson sampling would show on average.",
        "## Verdict",
        _verdict(results),
        "## Over all problems and steps",
        _markdown(_by_setting(results)),
        "## Mean excess by step",
        _markdown(_pivot(results, "step")),
        "## Mean excess by problem",
        _markdown(_pivot(results, "problem").T),
        "## Not measured",
        _refusals(refused),
    ]
    path.write_text("\n\n".join(parts) + "\n")


def _verdict(results: pd.DataFrame) -> str:
    verdicts = (_racing_verdict, _law_verdict, _matched_verdict, _exact_verdict, _moves_verdict)
    return "\n".join(f"- {verdict(results)}" for verdict in verdicts)


def _racing_verdict(results: pd.DataFrame) -> str:
    """Say whether Racing as the paper sets it is close wherever it has enough samples."""
    rows = results[results["setting"] == CLAIM_SETTING]
    enough = rows[rows["effective_sample_size"] > FEWEST_EFFECTIVE]
    if enough.empty:
        return f"No point of {CLAIM_SETTING} has an effective sample size above {FEWEST_EFFECTIVE}."
    worst = enough.loc[enough["excess"].idxmax()]
    holds = "holds" if worst["excess"] <= LARGEST_EXCESS else "does not hold"
    num_beyond = int((enough["tv"] > enough["floor_high"]).sum())
    noise = (enough["floor_high"] - enough["floor"]).mean()
    return (
        f"TV at most {LARGEST_EXCESS} above its noise floor for {CLAIM_SETTING} where the weights' "
        f"effective sample size is above {FEWEST_EFFECTIVE} ({len(enough)} of {len(rows)} points): "
        f"**{holds}**. The largest excess is {worst['excess']:.4f} ({worst['problem']}, step "
        f"{worst['step']}), where one point's noise is {noise:.4f} (95 %); {num_beyond} points are "
        "beyond it."
    )


def _law_verdict(results: pd.DataFrame) -> str:
    """Say whether races of fixed length follow the law of importance resampling."""
    rows = results.dropna(subset=["resampling_tv"])
    claim = "A race of fixed length is a draw from its normalised importance weights"
    return _noise_verdict(claim, rows["resampling_tv"] > rows["resampling_floor_high"])


def _noise_verdict(claim: str, is_beyond: pd.Series) -> str:
    """Say whether a claim holds, from which points are beyond the upper 2.5 % of their noise."""
    num_beyond, most = int(is_beyond.sum()), stats.binom.ppf(0.999, len(is_beyond), 0.025)
    holds = "holds" if num_beyond <= most else "does not hold"
    return (
        f"{claim}: **{holds}**. At {num_beyond} of {len(is_beyond)} points the distance is beyond "
        f"the 97.5 % quantile of its noise, where up to {most:.0f} may be by chance (at the level "
        "0.001)."
    )


def _matched_verdict(results: pd.DataFrame) -> str:
    """Say whether matched proposals with the self-normalised stop are close everywhere."""
    rows = results[results["setting"] == MATCHED_SETTING]
    worst = rows.loc[rows["excess"].idxmax()]
    holds = "holds" if worst["excess"] <= LARGEST_EXCESS else "does not hold"
    samples = rows.groupby("problem", sort=False)["num_samples"].mean()
    most = samples.groupby(samples.index.str.contains("dependent")).agg(["max", "idxmax"])
    listed = "; ".join(f"{row['max']:.0f} ({row['idxmax']})" for _, row in most.iterrows())
    costs = results.pivot_table("microseconds", "problem", "setting")
    ratios = costs[CLAIM_SETTING] / costs[MATCHED_SETTING]
    gain = costs[CLAIM_SETTING].mean() / costs[MATCHED_SETTING].mean()
    return (
        f"TV at most {LARGEST_EXCESS} above its noise floor for {MATCHED_SETTING} everywhere: "
        f"**{holds}**. The largest excess is {worst['excess']:.4f} ({worst['problem']}, step "
        f"{worst['step']}). Most samples per decision, averaged over the steps of a problem, with "
        f"independent and dependent arms: {listed}. A step takes {gain:.1f} times less time than "
        f"with {CLAIM_SETTING}; from {ratios.min():.1f} times ({ratios.idxmin()}) to "
        f"{ratios.max():.1f} ({ratios.idxmax()})."
    )


def _exact_verdict(results: pd.DataFrame) -> str:
    """Say whether exact Thompson sampling is the truth to within its noise."""
    rows = results[results["family"] == "exact"]
    claim = "Exact Thompson sampling by conjugacy, grid and Gibbs is within noise"
    return _noise_verdict(claim, rows["tv"] > rows["floor_high"])


def _moves_verdict(results: pd.DataFrame) -> str:
    """Say whether a run of SMC with moves stays close to the truth."""
    rows = results[results["setting"] == MOVES_SETTING]
    worst = rows.loc[rows["single_run_excess"].idxmax()]
    holds = "holds" if worst["single_run_excess"] <= LARGEST_RUN_EXCESS else "does not hold"
    return (
        f"The law of a single run of {MOVES_SETTING} is within a TV of {LARGEST_RUN_EXCESS} of the "
        f"truth on average: **{holds}**. The largest average is {worst['single_run_excess']:.4f} "
        f"({worst['problem']}, step {worst['step']})."
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
    groups = results.assign(is_beyond=is_beyond).groupby("setting", sort=False)
    return pd.DataFrame(
        {
            "mean excess": groups["excess"].mean(),
            "largest excess": groups["excess"].max(),
            "share of points beyond noise": groups["is_beyond"].mean(),
            "mean excess of a single run": groups["single_run_excess"].mean(),
            "samples per decision": groups["num_samples"].mean(),
            "effective samples": groups["effective_sample_size"].mean(),
            "microseconds per step": groups["microseconds"].mean(),
        }
    )


def _pivot(results: pd.DataFrame, column: str) -> pd.DataFrame:
    table = results.pivot_table(index="setting", columns=column, values="excess", sort=False)
    return table if column != "step" else table.sort_index(axis=1)


def _markdown(table: pd.DataFrame) -> str:
    """Return a table with its index as the first column; missing numbers are left empty."""
    header = [table.index.name or "", *map(str, table.columns)]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for name, row in table.iterrows():
        cells = ["" if pd.isna(value) else f"{value:.4g}" for value in row]
        lines.append("| " + " | ".join([str(name), *cells]) + " |")
    return "\n".join(lines)


def _range(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def draw_figure(results: pd.DataFrame, path: Path) -> None:
    """Draw distance against cost, one panel per problem, averaged over steps.

    Agents that keep what they drew are shown by the law of a single run. The first and the last
    setting of each family are named.
    """
    results = results[results["failure"].isna()]
    results = results.assign(distance=results["single_run_excess"].fillna(results["excess"]))
    problems = list(dict.fromkeys(results["problem"]))
    num_columns = min(NUM_COLUMNS, len(problems))
    num_rows = -(-len(problems) // num_columns)
    figure = Figure(figsize=(3.6 * num_columns, 2.8 * num_rows + 1.0), layout="constrained")
    grid = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
    for axes, problem in zip(grid.flat, problems, strict=False):
        _draw_problem(axes, results[results["problem"] == problem])
        axes.set_title(problem, fontsize=9)
    for axes in list(grid.flat)[len(problems) :]:
        axes.remove()
    figure.supxlabel("processor microseconds per step", fontsize=10)
    figure.supylabel("TV distance from exact Thompson sampling,\nless its noise floor", fontsize=10)
    _draw_legend(figure)
    figure.savefig(path, dpi=150)


def _draw_problem(axes: Axes, rows: pd.DataFrame) -> None:
    noise = (rows["floor_high"] - rows["floor"]).median() / rows["step"].nunique() ** 0.5
    axes.axhspan(-noise, noise, color="#dddddd", lw=0, label="noise of most points, 95 %")
    columns = ["distance", "microseconds"]
    means = rows.groupby(["family", "setting"], sort=False)[columns].mean()
    for family, points in means.groupby(level="family", sort=False):
        colour, marker = _style(str(family))
        axes.plot(points["microseconds"], points["distance"], marker + "-", color=colour, lw=1,
                  ms=5, label=family)  # fmt: skip
        for (_, setting), point in points.iloc[:: max(1, len(points) - 1)].iterrows():
            axes.annotate(
                _short(setting), (point["microseconds"], point["distance"]), fontsize=6,
                textcoords="offset points", xytext=(3, 3), color=colour,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.02, linscale=1)
    axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.set_yticks([], minor=True)
    axes.set_ylim(-0.012, 0.9)
    axes.tick_params(labelsize=8)


def _short(setting: str) -> str:
    """Return the numbers in a setting's label, or what follows its comma."""
    return ", ".join(re.findall(r"\d[\d.]*", setting)) or setting.partition(", ")[2]


def _draw_legend(figure: Figure) -> None:
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        lines, texts = axes.get_legend_handles_labels()
        handles |= dict(zip(texts, lines, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=8)


def _style(family: str) -> tuple[str, str]:
    if family in STYLES:
        return STYLES[family]
    return SPARE_STYLES[zlib.crc32(family.encode()) % len(SPARE_STYLES)]
