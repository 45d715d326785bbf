"""Measures everything side by side, as ratios taken in one run on one machine.

    python scripts/benchmark.py                       all rows but those that need peers
    python scripts/benchmark.py --with-peers          installs gymnax, MABWiser, ... beside us
    python scripts/benchmark.py --quick --only racing
    python scripts/benchmark.py --check               exits with 1 if a bar is missed
    python scripts/benchmark.py --profile             what a Racing experiment's time goes to

Contestants are warmed up, take turns and repeat; a value is the median over the turns. Compiled
code and linear algebra run on one thread, here and in the peers that let themselves be told.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read when NumPy and numba are imported

from benchmarks.bars import judged, unmeasured  # noqa: E402
from benchmarks.peers import Peers  # noqa: E402
from benchmarks.report import document, print_report, write_markdown  # noqa: E402
from benchmarks.session import Session  # noqa: E402
from benchmarks.timing import CLOCKS, Effort, Row  # noqa: E402
from rich.console import Console  # noqa: E402

FAMILIES = {
    "environments": "benchmarks.environments",
    "exact": "benchmarks.exact",
    "racing": "benchmarks.racing",
    "smc": "benchmarks.smc",
    "growth": "benchmarks.growth",
    "harness": "benchmarks.harness",
    "end-to-end": "benchmarks.end_to_end",
}
FULL = Effort("full", seconds=0.2, repeats=9)
QUICK = Effort("quick", seconds=0.02, repeats=3, length_scale=0.02)
WIDTH = 200
FAILED = "a process failed, see the errors"


def main(arguments: Sequence[str] | None = None, effort: Effort | None = None) -> int:
    """Measure, print, write, check; return the exit code."""
    options = _make_parser().parse_args(arguments)
    if options.profile:
        print(import_module("benchmarks.profile").profile_racing())
        return 0
    effort = effort or replace(QUICK if options.quick else FULL, clock=options.clock)
    with Peers(options.with_peers) as peers:
        rows = list(_measure(options.only, Session(effort, peers)))
        found = document(rows, effort, peers.versions())
    print_report(found, rows, Console(width=None if sys.stdout.isatty() else WIDTH))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.markdown:
        write_markdown(found, rows, options.markdown)
    return _check(rows) if options.check else 0


def _measure(families: Sequence[str], session: Session) -> Iterator[Row]:
    for name in families:
        print(f"measuring {name} ...", file=sys.stderr)
        try:
            yield from import_module(FAMILIES[name]).rows(session)
        except RuntimeError as error:  # a process failed; what was measured so far is kept
            print(error, file=sys.stderr)
            yield Row(f"{name}.failed", f"{name}: ended early", None, note=FAILED)


def _check(rows: Sequence[Row]) -> int:
    """Name bars missed, too close to tell or not measured; return 1 for misses and errors."""
    found = {"not measured": unmeasured(rows)}
    found |= {name: judged(rows, name) for name in ("noisy", "MISSED")}
    for state, lines in found.items():
        for line in lines:
            print(f"{state}: {line}", file=sys.stderr)
    return 1 if found["MISSED"] or any(row.note == FAILED for row in rows) else 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="take less than a minute, and trust it less")
    add("--check", action="store_true", help="exit with 1 if a bar is missed, and say which")
    add("--with-peers", action="store_true", help="install and measure other people's libraries")
    add("--profile", action="store_true", help="print what a Racing experiment's time goes to")
    add("--json", type=Path, metavar="FILE", help="write everything found to FILE")
    add("--markdown", type=Path, metavar="FILE", help="put the table into a document, as docs has")
    add("--clock", choices=list(CLOCKS), default="wall", help="'processor' on a busy machine")
    names = list(FAMILIES)
    add("--only", nargs="+", choices=names, default=names, help="measure these families only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
