"""What becomes of a run that is disturbed: docs/reliability.md.

    python scripts/reliability.py
    python scripts/reliability.py --only receipt --repeats 4

Kills, signals, full disks and damaged files, at random moments and places, of real processes and
real files. After each of them the folder is looked at, as `bandit-gym report` does, and gone on
with, as `bandit-gym resume` does; all blocks that are believed, then and afterwards, are compared
byte by byte with those of an undisturbed run. Rows are kept, so that a command that is stopped goes
on where it was. Linux only: it looks at processes in /proc.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from faults import damages, processes
from faults.trial import Trial, make_trial
from pages.command import new_parser
from pages.page import Section, Verdict, graded, markdown_table, write_page

Row = dict[str, str]
PARTS = (
    ("Processes and disks", processes.FAULTS, 80, False),
    ("Files", damages.FAULTS, 16, True),
)
"""Title, faults, replications of the experiment, and whether one of its agents raises."""

TEXT = """The experiment has two agents in one world, 80 replications of 100 steps in 40 blocks,
and takes seconds; for damaged files it is smaller, with a third agent that raises. *What it did* is
the disturbed run itself, *afterwards* what going on with its folder came to. Before that, every
block that the folder was believed to hold was compared with the undisturbed run's, and after it all
of them, byte by byte; a difference would be shown as WRONG. Damage goes round the quartiles of a
file's bytes, to a random place in each. Of what else a folder holds, `report/` is written anew."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command and return its exit code."""
    parser = new_parser(__doc__, "docs", 2)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--repeats", type=int, default=20, help="of each fault")
    rows = Path("results/reliability")
    parser.add_argument("--rows", type=Path, default=rows, help="folder for rows; %(default)s")
    options = parser.parse_args(arguments)
    options.rows.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sections = list(_measure(Path(folder), options))
    page = options.out / ("reliability-in-part.md" if options.only else "reliability.md")
    command = " ".join(["python scripts/reliability.py", *(arguments or sys.argv[1:])])
    write_page(page, "Reliability", f"Made by `{command}`. {TEXT}", sections)
    print(f"table: {page}")
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> Iterator[Section]:
    for title, faults, replications, is_careless in PARTS:
        wanted = {name: fault for name, fault in faults.items() if options.only in name}
        if not processes.can_mount(folder / "disk"):
            wanted.pop("disk full (a small tmpfs)", None)
        if wanted:
            trial = make_trial(folder / title, replications=replications, is_careless=is_careless)
            yield _section(title, [_keep(name, trial, wanted[name], options) for name in wanted])


def _keep(name: str, trial: Trial, fault: processes.Fault, options: argparse.Namespace) -> Row:
    """Return a row; one that is kept from before is not measured again."""
    file = options.rows / f"{re.sub(r'[^a-z]+', '-', name.lower())}-{options.repeats}.json"
    if not file.exists():
        rng = np.random.default_rng([*name.encode()])
        file.write_text(json.dumps(_row(name, fault, trial, options.repeats, rng)))
    row: Row = json.loads(file.read_text())
    return row


def _row(
    name: str, fault: processes.Fault, trial: Trial, repeats: int, rng: np.random.Generator
) -> Row:
    """Repeat a fault, and count what the run did and what came of it."""
    did, became = Counter[str](), Counter[str]()
    for _ in range(repeats):
        out = trial.file.parent / "disturbed"
        did[fault(trial, out, rng)] += 1
        became[trial.judge(out)] += 1
        shutil.rmtree(out, ignore_errors=True)
    print(f"{name}: {_counted(did)}; afterwards {_counted(became)}", flush=True)
    return {
        "what was done": name,
        "repeats": str(repeats),
        "what it did": _counted(did),
        "afterwards": _counted(became),
    }


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{text} ({count})" for text, count in found.most_common() if text)


def _section(title: str, rows: list[Row]) -> Section:
    text = str(rows)
    truths = ("WRONG" not in text, "OUTLIVED" not in text)
    claim = "Every block that is believed is that of an undisturbed run; no worker outlives its run"
    evidence = f"{sum(int(row['repeats']) for row in rows)} disturbances of {len(rows)} kinds"
    if not any(row["what it did"] for row in rows):
        rows = [{key: cell for key, cell in row.items() if key != "what it did"} for row in rows]
    return Section(
        title,
        body=[markdown_table(rows)],
        verdicts=[Verdict(claim, graded(*truths), evidence)],
    )


if __name__ == "__main__":
    sys.exit(main())
