"""Measure what goes beyond the paper: its guarantee, its thrift, SMC as done today, and regret.

    python scripts/beyond_paper.py --out results/beyond
    python scripts/beyond_paper.py --only guarantee --scale 0.02

Parts: `guarantee` (error frequency of the self-normalised stop against its promise), `thrift`
(samples and distance beside the paper's stop), `particles` (SMC over time) and `regret`. The folder
receives one PNG a part that has one, the simulations' data (the same command goes on where it was
stopped) and one page, `README.md`, with a verdict on each claim. `--scale` is the share of the full
number of races, decisions, runs and replications.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from beyond import guarantee, particles, regret, thrift
from beyond.settings import Scale
from paper.common import Section, markdown_table
from reproduce_paper import check_scale

from bandit_gym.experiments.execution import Workers

Reproduce = Callable[[Scale, Path, Workers], Section]

PARTS: dict[str, Reproduce] = {
    "guarantee": guarantee.reproduce,
    "thrift": thrift.reproduce,
    "particles": particles.reproduce,
    "regret": regret.reproduce,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    names = list(PARTS) if options.only == "all" else [options.only]
    options.out.mkdir(parents=True, exist_ok=True)
    sections = []
    for name in names:
        print(f"{name} ...", flush=True)
        start = time.perf_counter()
        workers = Workers(num_workers=options.workers)
        sections.append(PARTS[name](Scale(options.scale), options.out, workers))
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    page = options.out / ("README.md" if options.only == "all" else f"{options.only}.md")
    page.write_text(_write_page(sections, options.scale), encoding="utf-8")
    print(f"verdicts and figures: {page}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--scale", type=check_scale, default=1.0, help="> 0, 1 is the full size")
    parser.add_argument("--out", type=Path, default=Path("results/beyond"))
    parser.add_argument("--workers", type=int, default=1, help="processes for the regret")
    return parser.parse_args(arguments)


def _write_page(sections: Sequence[Section], scale: float) -> str:
    verdicts = [
        [verdict.claim, f"**{verdict.holds}**", verdict.evidence]
        for section in sections
        for verdict in section.verdicts
    ]
    parts = [
        "# Beyond the paper",
        f"Made by `python scripts/beyond_paper.py --scale {scale:g}`. ± is the half width of a "
        "95 % interval unless said otherwise.",
        "## Verdicts",
        markdown_table(["claim", "verdict", "evidence"], verdicts),
    ]
    for section in sections:
        parts += [f"## {section.title}", section.choices, section.body]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
