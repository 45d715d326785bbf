"""Reproduce the tables and figures of the Racing Thompson paper, with intervals and verdicts.

    python scripts/reproduce_paper.py --figure all --out results/paper
    python scripts/reproduce_paper.py --figure table2 --scale 0.02

Results land in the folder as data (resumable: the same command goes on where it was stopped), one
PNG a figure and one page, `README.md`, with a verdict on each sentence of the paper's Section 5.
`--scale` is the share of the full number of replications.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from paper import regret_figures, table1, table2, theorem1
from paper.common import Section, markdown_table
from paper.settings import Scale

from bandit_gym.experiments.execution import Workers

Reproduce = Callable[[Scale, Path, Workers], Section]

FIGURES: dict[str, Reproduce] = {
    "table1": table1.reproduce,
    "table2": table2.reproduce,
    "fig1a": regret_figures.reproduce_1a,
    "fig1b": regret_figures.reproduce_1b,
    "fig2": regret_figures.reproduce_2,
    "theorem1": theorem1.reproduce,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    names = list(FIGURES) if options.figure == "all" else [options.figure]
    workers = Workers(num_workers=options.workers)
    sections = []
    for name in names:
        print(f"{name} ...", flush=True)
        start = time.perf_counter()
        sections.append(FIGURES[name](Scale(options.scale), options.out, workers))
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    page = options.out / ("README.md" if options.figure == "all" else f"{options.figure}.md")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(_write_page(sections, options.scale), encoding="utf-8")
    print(f"verdicts and figures: {page}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", choices=[*FIGURES, "all"], default="all")
    parser.add_argument("--scale", type=check_scale, default=1.0, help="> 0, 1 is the full size")
    parser.add_argument("--out", type=Path, default=Path("results/paper"))
    parser.add_argument("--workers", type=int, default=None, help="default: all cores")
    return parser.parse_args(arguments)


def check_scale(text: str) -> float:
    """Return the share of the full size that an argument asks for."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"scale must be a number above 0, got {text!r}.")
    return value


def _write_page(sections: Sequence[Section], scale: float) -> str:
    verdicts = [
        [section.title.partition(":")[0], verdict.claim, f"**{verdict.holds}**", verdict.evidence]
        for section in sections
        for verdict in section.verdicts
    ]
    parts = [
        "# Racing Thompson, reproduced",
        f"Scale {scale:g}. Regret is Bayesian pseudo-regret, the sum over steps of max(means) - "
        "means[action] averaged over instances drawn from the prior; ± is the half width of a 95 % "
        "interval.",
        "## Verdicts",
        markdown_table(["where", "claim", "verdict", "evidence"], verdicts),
    ]
    for section in sections:
        parts += [f"## {section.title}", section.choices, section.body]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
