"""How clearly bad calls are refused: every public callable and option, each argument, 20 values.

    python scripts/bad_calls.py
    python scripts/bad_calls.py --scale 0.05 --seed 1
    python scripts/bad_calls.py --only "Beta(alpha" --show

`scripts/calls/judge.py` says what is clear. The accepted calls and those that are not clear are
written into `results/bad-calls/`, to be read. With `--page` the table is put into its page.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from calls.judge import ACCEPTED, CLEAR, DEPTHS, HANG, UNCLEAR
from calls.outcome import Outcome, all_calls, make_all

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "bad-calls.md"
LISTS = Path("results") / "bad-calls"
VERDICTS = (CLEAR, UNCLEAR, DEPTHS, HANG)
LEAST, LEAST_OF_CLASS = 0.98, 0.95
"""Shares of the refused calls that must be clear, in all and in each class."""


def main(arguments: list[str] | None = None) -> int:
    options = _make_parser().parse_args(arguments)
    numbers = draw(options.scale, options.seed, options.only)
    outcomes = []
    for outcome in make_all(numbers):
        outcomes.append(outcome)
        if options.show:
            print(_line(outcome).encode("ascii", "backslashreplace").decode(), flush=True)
    write_lists(outcomes)
    table = list(tabulate(outcomes))
    print("\n".join(table))
    if options.page:
        PAGE.write_text(_put_into(PAGE.read_text(), table))
    return 0 if is_enough(outcomes) else 1


def draw(scale: float, seed: int, only: str = "") -> list[int]:
    """Return the numbers of the calls to make: a share of them, drawn at random."""
    named = [number for number, call in enumerate(all_calls()) if only in call.text]
    count = max(1, round(scale * len(named)))
    return sorted(random.Random(seed).sample(named, count)) if scale < 1 else named


def tabulate(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield the table: a row per class of callable, percentages of the calls that were refused."""
    yield "| class | calls | accepted | clear | unclear | from the depths | hang |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, counts in _count(outcomes).items():
        refused = sum(counts[verdict] for verdict in VERDICTS)
        cells = [f"{100 * counts[verdict] / max(refused, 1):.1f} %" for verdict in VERDICTS[:2]]
        cells += [str(counts[verdict]) for verdict in VERDICTS[2:]]
        total = refused + counts[ACCEPTED]
        yield f"| {name} | {total} | {counts[ACCEPTED]} | {' | '.join(cells)} |"


def is_enough(outcomes: list[Outcome]) -> bool:
    """Say whether enough calls are clear, and none came from the depths or hung."""
    for name, counts in _count(outcomes).items():
        refused = sum(counts[verdict] for verdict in VERDICTS)
        least = LEAST if name == "all" else LEAST_OF_CLASS
        if counts[CLEAR] < least * refused or counts[DEPTHS] or counts[HANG]:
            return False
    return True


def write_lists(outcomes: list[Outcome]) -> None:
    """Write a file for each verdict, with a line per call."""
    LISTS.mkdir(parents=True, exist_ok=True)
    for verdict in (*VERDICTS, ACCEPTED):
        lines = [_line(outcome) for outcome in outcomes if outcome.verdict == verdict]
        text = "".join(f"{line}\n" for line in lines)
        (LISTS / f"{verdict}.txt").write_text(text, "utf-8", "backslashreplace")


def _count(outcomes: list[Outcome]) -> dict[str, Counter[str]]:
    calls = all_calls()
    groups = dict.fromkeys(calls[outcome.number].edge.group for outcome in outcomes)
    found: dict[str, Counter[str]] = {group: Counter() for group in groups}
    for outcome in outcomes:
        found[calls[outcome.number].edge.group][outcome.verdict] += 1
    return found | {"all": sum(found.values(), Counter())}


def _line(outcome: Outcome) -> str:
    text = " ".join(outcome.text.split("\n"))
    parts = (outcome.verdict, outcome.reason, all_calls()[outcome.number].text, text)
    return "  ".join(part for part in parts if part)


def _put_into(page: str, table: list[str]) -> str:
    listed = "\n".join(table)
    return re.sub(r"(?ms)^\| class \|.*?^\| all \|[^\n]*", lambda _: listed, page)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the calls")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing of that share")
    parser.add_argument("--only", default="", metavar="TEXT", help="calls that contain this")
    parser.add_argument("--show", action="store_true", help="each call as it ends")
    parser.add_argument("--page", action="store_true", help="put the table into its page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
