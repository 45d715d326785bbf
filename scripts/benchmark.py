"""Measures everything side by side, as ratios taken in one run on one machine.

    python scripts/benchmark.py                       all rows but those that need peers
    python scripts/benchmark.py --with-peers          installs gymnax, MABWiser, ... beside us
    python scripts/benchmark.py --quick --only racing
    python scripts/benchmark.py --quick --only exact.many.numpy        one row, in seconds
    python scripts/benchmark.py --check               exits with 1 if a bar is surely missed

Contestants are warmed up, take turns and repeat; a value is the median over the turns. Compiled
code and linear algebra run on one thread, here and in the peers that allow it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":  # numba refuses another number once threads run, in a test for instance
    for library in "OMP", "OPENBLAS", "MKL", "NUMBA":
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when they are imported

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `scripts`, which is not installed

from benchmarks import decisions, runs  # noqa: E402
from benchmarks.report import document, print_report, write_markdown  # noqa: E402
from benchmarks.thresholds import judge_row  # noqa: E402
from benchmarks.timing import CLOCKS, Effort, Measurement, ResultRow  # noqa: E402

FULL = Effort("full", seconds=0.2, repeats=9)
QUICK = Effort("quick", seconds=0.02, repeats=3, length_scale=0.02)
FAILED = "a process failed, see the errors"


def main(arguments: Sequence[str] | None = None, effort: Effort | None = None) -> int:
    """Measure, print, write, check; return the exit code."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    effort = effort or (QUICK if options.quick else FULL)
    effort = replace(effort, has_peers=options.with_peers, clock=options.clock)
    try:
        chosen = choose_measurements(options.only, effort)
    except ValueError as error:
        parser.error(str(error))
    rows = [
        row
        for row in _measure_chosen(chosen, effort)
        if not options.only or row.key.startswith(tuple(options.only))
    ]
    found = document(rows, effort)
    print_report(found, rows)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.markdown:
        write_markdown(found, rows, options.markdown)
    return _check(rows) if options.check else 0


def choose_measurements(names: Sequence[str], effort: Effort) -> list[Measurement]:
    """Return the measurements with a row whose key is one of the names or begins with its words.

    Raises:
        ValueError: if there is none for one of the names; names the keys to choose from.
    """
    known = [*runs.measurements(effort), *decisions.measurements(effort)]
    for name in names:
        if not any(one.is_named(name) for one in known):
            keys = ", ".join(key for one in known for key in one.keys)
            raise ValueError(
                f"--only must name the key of a row or its first words, got {name!r}; keys: {keys}."
            )
    return [one for one in known if not names or any(one.is_named(name) for name in names)]


def _measure_chosen(chosen: Sequence[Measurement], effort: Effort) -> Iterator[ResultRow]:
    for keys, take in chosen:
        print(f"measuring {', '.join(keys)} ...", file=sys.stderr)
        try:
            yield from take(effort)
        except RuntimeError as error:  # a process failed; what was measured so far is kept
            print(error, file=sys.stderr)
            yield ResultRow(f"{keys[0]}.failed", f"{keys[0]}: ended early", None, note=FAILED)


def _check(rows: Sequence[ResultRow]) -> int:
    """Name bars missed, too close to decide or not measured; return 1 for misses and errors."""
    verdicts = {row.key: judge_row(row) for row in rows}
    for key, verdict in verdicts.items():
        if verdict in ("absent", "noisy", "MISSED"):
            print(f"{verdict}: {key}", file=sys.stderr)
    return int("MISSED" in verdicts.values() or any(row.note == FAILED for row in rows))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="take about a minute, and trust it less")
    add("--check", action="store_true", help="exit with 1 if a bar is surely missed, and say which")
    add("--with-peers", action="store_true", help="install and measure other people's libraries")
    add("--json", type=Path, metavar="FILE", help="write everything found to FILE")
    add("--markdown", type=Path, metavar="FILE", help="put the table into a document, as docs has")
    add("--clock", choices=list(CLOCKS), default="wall", help="'processor' on a busy machine")
    help_only = "measure these only: a row's key or its first words"
    add("--only", nargs="+", metavar="NAME", default=[], help=help_only)
    return parser


if __name__ == "__main__":
    sys.exit(main())
