"""Tables and picture of the court's page, and how distances rank with regret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from scipy import stats

from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.suite import Case
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Normal
from bandit_gym.results.statistics import mean_interval
from bandit_gym.styles import GREY, MAX_WIDTH, line_style
from scripts.studies.study import Found, fold_rows, parts_of, write_interval, write_percentage

REFERENCE = "racing"
MIN_RANKED = 8
"""Samplers whose ranks say anything."""

HALF_WIDTH = 1.96
NOT_PLAYED, FEWER = "–", "°"
"""Instead of a number, and behind one of fewer replications than the settings have."""
PROPENSITIES = "own", "few", "exact", "1 / K"

Row = Mapping[str, Any]


def name_longer(settings: Mapping[str, Any], title: str, horizon: str) -> str:
    """Return the title of an environment that is played for more decisions."""
    return f"{title}, {settings['sizes'][horizon]:,} decisions"


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    titles, labels = _list_titles(found), _list_labels(found)
    tables = {
        "court": [_court_cells(found, label) for label in labels],
        "regret": [_regret_cells(found, label, titles) for label in labels],
        "longer": [*_longer_cells(found)],
        "logs": [_log_cells(found, label) for label in labels],
        "ranks": [*_rank_cells(found)],
        "others": [*_other_cells(found)],
        "aims": [*_aim_cells(found)],
    }
    filled = {name: fold_rows(rows) if rows else "Not measured." for name, rows in tables.items()}
    return filled | {"unplayed": _list_unplayed(found)}


def _list_titles(found: Found) -> list[str]:
    """Return the environments that some sampler played."""
    return [title for title in found["settings"]["environments"] if parts_of(found, title)]


def _list_labels(found: Found) -> list[str]:
    """Return the samplers that played some environment, those nearest to exact first."""
    titles = _list_titles(found)
    played = {label for title in titles for label in parts_of(found, title)}
    in_order = [label for label in found["settings"]["agents"] if label in played]
    return sorted(
        in_order, key=lambda label: np.nan_to_num(average_distance(found, label)[0], nan=1)
    )


@cache
def _common_cases() -> set[str]:
    """Return the names of the cases that every sampler takes: clicks and a normal prior."""
    cases = load_suite("contextual-v1").cases
    return {case.name for case in cases if is_logistic(case)}


def is_logistic(case: Case) -> bool:
    """Say whether rewards are clicks and the prior is normal."""
    return type(case.problem.likelihood) is Bernoulli and type(case.problem.prior) is Normal


def average_distance(found: Found, label: str, *, is_common: bool = True) -> list[float]:
    """Return the mean distance in cases, ends of its interval, and the largest; NaN if none.

    Args:
        found: numbers of the study.
        label: of the sampler.
        is_common: whether cases are those that all samplers take, or the others.
    """
    rows = _select_rows(found, label, is_common)
    if not rows:
        return [np.nan] * 4
    distances, stds = (np.array([row[name] for row in rows]) for name in ("distance", "std"))
    half = HALF_WIDTH * np.sqrt(np.square(stds).sum()) / len(rows)
    mean = distances.mean()
    return [float(each) for each in (mean, mean - half, mean + half, distances.max())]


def _select_rows(found: Found, label: str, is_common: bool) -> list[Row]:
    common, rows = _common_cases(), parts_of(found, "suite").get(label, [])
    return [row for row in rows if (row["case"] in common) == is_common]


def find_lost(found: Found, title: str, label: str) -> np.ndarray | None:
    """Return (R,) values whose mean is the regret beyond racing's, as a share of racing's.

    With r the ratio of the means of own regrets y and racing's x, they are r - 1 + (y - r x) / x,
    the last x being its mean: what an interval of r needs, as both means are estimates (Cochran
    1977, section 6.4).
    """
    runs = parts_of(found, title)
    if label not in runs or REFERENCE not in runs:
        return None
    own, reference = (np.array(runs[each]["regret"]) for each in (label, REFERENCE))
    size = min(len(own), len(reference))
    own, reference = own[:size], reference[:size]
    ratio = own.mean() / reference.mean()
    return np.asarray(ratio - 1 + (own - ratio * reference) / reference.mean())


def _court_cells(found: Found, label: str) -> dict[str, str]:
    mean, low, high, worst = average_distance(found, label)
    rows = _select_rows(found, label, True)
    cells = {"sampler": label, "distance": "", "largest": "", "where": "", "favourite": ""}
    if rows:
        cells["distance"] = write_interval((mean, low, high), 3)
        cells["largest"] = f"{worst:.3f}"
        cells["where"] = max(rows, key=lambda row: row["distance"])["case"].partition(", ")[2]
        cells["favourite"] = f"{np.mean([row['lean'] for row in rows]):+.3f}"
    cost = parts_of(found, _list_titles(found)[0]).get(label, {}).get("microseconds", np.nan)
    return cells | {"µs a decision": f"{cost:,.0f}"}


def _regret_cells(found: Found, label: str, titles: list[str]) -> dict[str, str]:
    cells = {"sampler": label}
    for title in titles:
        runs, lost = parts_of(found, title), find_lost(found, title, label)
        if lost is None:
            cells[title] = NOT_PLAYED
            continue
        is_full = len(lost) == found["settings"]["sizes"]["replications"]
        if label == REFERENCE:
            cells[title] = f"{np.mean(runs[label]['regret']):.1f}"
        else:
            cells[title] = write_percentage(mean_interval(lost))
        cells[title] += "" if is_full else FEWER
    return cells


def _longer_cells(found: Found) -> Iterator[dict[str, str]]:
    """Yield what samplers lose after more decisions, a row for each number of decisions."""
    settings = found["settings"]
    for horizon, labels in settings["longer"].items():
        titles = [name_longer(settings, title, horizon) for title in _list_titles(found)]
        for label in _list_labels(found):
            if label in labels and any(label in parts_of(found, title) for title in titles):
                cells = _regret_cells(found, label, titles)
                short = [*cells.values()][1:]
                names = {"decisions": f"{settings['sizes'][horizon]:,}", "sampler": label}
                yield names | dict(zip(_list_titles(found), short, strict=True))


def _log_cells(found: Found, label: str) -> dict[str, str]:
    """Return what logs of the first environment are worth, by each kind of propensities.

    By the sampler's own there is no bias, so that it has the two coverages alone.
    """
    run, cells = parts_of(found, _list_titles(found)[0])[label], {"sampler": label}
    estimates = [run, run["doubly robust"]] if "doubly robust" in run else [run]
    for name in PROPENSITIES:
        pairs = [(each["bias"][name], each["covered"][name]) for each in estimates]
        form = "{1:.0%}" if name == "own" else "{0:.1%}, {1:.0%}"
        cells[name if name != "few" else "1,000 draws"] = "; ".join(form.format(*p) for p in pairs)
    return cells


def _rank_cells(found: Found) -> Iterator[dict[str, str]]:
    """Yield how distances along runs, and what the favourite gets, rank with regret."""
    settings, titles = found["settings"], _list_titles(found)
    longer = [name_longer(settings, title, "horizon_long") for title in titles]
    for title in titles + [each for each in longer if len(parts_of(found, each)) >= MIN_RANKED]:
        cells = {"environment": title}
        for number, name in enumerate(("at 10", "at 100", "at the last")):
            interval = correlate_ranks(found, title, "distances", number)
            cells[f"distance {name}"] = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*interval)
        interval = correlate_ranks(found, title, "leans", -1)
        cells["favourite at the last"] = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*interval)
        yield cells | {"samplers": str(len(parts_of(found, title)))}


def correlate_ranks(found: Found, title: str, name: str, number: int) -> tuple[float, float, float]:
    """Return Spearman's rank correlation with the mean regret, and a 95 % interval.

    Families of samplers and replications are resampled together. Distances below the tie are 0.

    Args:
        found: numbers of the study.
        title: of the environment.
        name: "distances" or "leans", along runs.
        number: of the step.
    """
    settings, runs = found["settings"], parts_of(found, title)
    values = {label: run[name][number] for label, run in runs.items()}
    if name == "distances":
        values = {k: value * (value >= settings["tie"]) for k, value in values.items()}
    families = [
        [each for each in family if each in runs] for family in settings["families"].values()
    ]
    families, rng = [family for family in families if family], make_generator("ranks")
    num_runs = min(len(run["regret"]) for run in runs.values())
    regrets = {label: np.array(run["regret"])[:num_runs] for label, run in runs.items()}
    everyone = [label for family in families for label in family]

    def correlate(labels: list[str], chosen: Any) -> float:
        means = [regrets[label][chosen].mean() for label in labels]
        ranks = stats.rankdata([[values[label] for label in labels], means], axis=1)
        return float(np.corrcoef(ranks)[0, 1])

    resampled = []
    for _ in range(settings["resamples"]):
        drawn = [families[i] for i in rng.integers(len(families), size=len(families))]
        labels = [label for family in drawn for label in family]
        if len({values[label] for label in labels}) > 1:  # else there are no ranks
            resampled.append(correlate(labels, rng.integers(num_runs, size=num_runs)))
    low, high = np.quantile(resampled or [np.nan], [0.025, 0.975])
    return correlate(everyone, slice(None)), float(low), float(high)


def _other_cells(found: Found) -> Iterator[dict[str, str]]:
    """Yield the distances in the cases that not every sampler takes."""
    for label in _list_labels(found):
        mean, low, high, worst = average_distance(found, label, is_common=False)
        if not np.isnan(mean):
            text = write_interval((mean, low, high), 3)
            yield {"sampler": label, "distance": text, "largest": f"{worst:.3f}"}


def _aim_cells(found: Found) -> Iterator[dict[str, str]]:
    """Yield how far feel-good Thompson sampling is from exact, and from what it aims at."""
    steps = found["settings"]["steps"]
    for title in found["settings"]["environments"]:
        for label, run in parts_of(found, title).items():
            if run["own"]:
                cells = {"environment": title, "sampler": label}
                for number, step in enumerate(steps):
                    pair = run["distances"][number], run["own"][number]
                    texts = [NOT_PLAYED if each is None else f"{each:z.3f}" for each in pair]
                    cells[f"at {step}"] = ", ".join(texts)
                yield cells


def _list_unplayed(found: Found) -> str:
    """Return lines of what was not measured."""
    settings, lines = found["settings"], []
    suited = [label for label in settings["agents"] if label not in settings["unsuited"]]
    rows = {title: settings["agents"] for title in settings["environments"]} | {"suite": suited}
    for horizon, labels in settings["longer"].items():
        rows |= {name_longer(settings, title, horizon): labels for title in _list_titles(found)}
    for title, labels in rows.items():
        missing = [label for label in labels if label not in parts_of(found, title)]
        if missing:
            text = "all samplers" if len(missing) == len(labels) else "; ".join(missing)
            lines.append(f"- {title}: {text}")
    return "\n".join(lines) or "All was measured."


def draw(found: Found) -> dict[str, Figure]:
    """Draw what is lost beside racing against the distance from exact at the last decision."""
    environments, families = _list_titles(found), found["settings"]["families"]
    figure = Figure(figsize=(MAX_WIDTH, 1.4 + 1.3 * len(environments)), layout="constrained")
    styles = {family: line_style(number) for number, family in enumerate(families)}
    panels = figure.subplots((len(environments) + 1) // 2, 2, squeeze=False)
    for axes in panels.flat[len(environments) :]:
        axes.set_visible(False)
    for axes, title in zip(panels.flat, environments, strict=False):
        for family, labels in families.items():
            for label in labels:
                lost = find_lost(found, title, label)
                if lost is not None:
                    distance = parts_of(found, title)[label]["distances"][-1]
                    share, low, high = mean_interval(lost)
                    ends, style = [[share - low], [high - share]], styles[family]
                    look: Any = {"color": style.colour, "fmt": style.marker, "capsize": 2}
                    axes.errorbar(distance, share, ends, ms=5, **look)
        axes.axhline(0, color=GREY, lw=0.8, ls=":")
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_yscale("symlog", linthresh=0.5)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set(title=title, xticks=(0, 0.01, 0.1), yticks=(-0.5, 0, 0.5, 1, 5), ylim=(-0.7, 7))
        axes.margins(x=0.08)
    for row in panels:
        row[0].set_ylabel("regret lost")
    for axes in panels.flat[len(environments) - 2 : len(environments)]:
        axes.set_xlabel("distance at decision 200")
    handles = [
        Line2D([], [], color=style.colour, marker=style.marker, ls="", label=family)
        for family, style in styles.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return {"court": figure}
