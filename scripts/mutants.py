"""How many broken lines the tests notice: mutants drawn at random in both packages.

    python scripts/mutants.py run --seed 1 --session results/mutants/both-1.sqlite
    python scripts/mutants.py table results/mutants/*.sqlite

cosmic-ray (`pip install -e ".[mutants]"`) knows the places that can be broken and breaks them; a
session is its own, so `cr-report` and `cr-html` read it too. A run that is stopped goes on where it
was. Each mutant is written into a copy of the working tree and meets the tests nearest to it, in a
fork of a process that has imported the libraries: first with kernels as plain Python, then, if it
survives, compiled. What needs longer than `MAX_SECONDS_PER_TEST` a test or `MAX_SECONDS_PER_MUTANT`
in all is left out, so a score is a lower bound of what all tests notice. Annotations, which are
never evaluated, are not broken, and what is no longer Python is not counted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
from cosmic_ray import mutating, plugins
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult
from mutation.sample import draw_mutants
from mutation.tree import Tree

LIBRARIES = (
    *("numba", "pandas", "pyarrow.parquet", "matplotlib.pyplot", "gymnasium.vector", "joblib"),
    *("scipy.stats", "scipy.integrate", "scipy.optimize", "scipy.interpolate", "scipy.sparse"),
)
"""What every test would wait for, imported once."""


def judge_mutant(mutation: MutationSpec, tree: Tree) -> WorkResult:
    """Break the tree, run the nearest tests, mend it again."""
    path, operator = mutation.module_path, plugins.get_operator(mutation.operator_name)()
    broken = mutating.use_mutation(tree.folder / path, operator, mutation.occurrence)
    with broken as (before, after):
        fate = tree.run_nearest_tests(path)
    outcome = TestOutcome.KILLED if fate else TestOutcome.SURVIVED
    return WorkResult(WorkerOutcome.NORMAL, fate, outcome, name_mutant(path, before, after))


def name_mutant(path: Path, before: str, after: str) -> str:
    """Name a mutant by its file and its line, whole and broken."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    old, new = next((a, b) for a, b in pairs if a != b)
    return f"`{path}`: `{old.strip()}` -> `{new.strip()}`"


def run(only: str, session: Path, again: bool, **drawn: int) -> None:
    """Judge the mutants of a session that have not been judged, or again those that survived.

    Args:
        only: how the paths of the files begin whose lines are broken; "" for all.
        session: file of the mutants and of what became of them; made if it is not there.
        again: whether survivors meet the tests once more.
        drawn: size and seed of a new sample.
    """
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.dont_write_bytecode = True  # a stale module would hide a mutant
    session.parent.mkdir(parents=True, exist_ok=True)
    database = WorkDB(session, WorkDB.Mode.create)
    if database.num_work_items == 0:
        database.add_work_items(draw_mutants(only, **drawn))
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder), session.with_suffix(".json"))
        done = [] if not again else list(database.completed_work_items)
        survivors = [item for item, result in done if not result.is_killed]
        for item in [*database.pending_work_items, *survivors]:
            result = judge_mutant(item.mutations[0], tree)
            database.set_result(item.job_id, result)
            print(result.output or "SURVIVED", result.diff, flush=True)


def print_table(sessions: list[Path]) -> None:
    """Print the scores of sessions, with Wilson's 95 % intervals, and what survived."""
    from bandit_gym.results.report import markdown_rows
    from bandit_gym.results.statistics import proportion_interval

    rows, survivors = [], []
    for session in sessions:
        results = [result for _, result in WorkDB(session, WorkDB.Mode.open).results]
        left = [r for r in results if not r.is_killed]
        killed = [r for r in results if r.is_killed]
        late = sum("timeout" in str(r.output) for r in killed)
        score = proportion_interval(np.repeat([1.0, 0.0], [len(killed), len(left)]))
        shares = "{:.0%} ({:.0%} to {:.0%})".format(*score)
        cells = {"sample": session.stem, "mutants": len(results), "killed": len(killed)}
        cells |= {"of them by time": late, "survived": len(left), "score": shares}
        rows.append({name: str(cell) for name, cell in cells.items()})
        survivors += [str(r.diff) for r in left]
    print(markdown_rows(rows), *(f"- {name}" for name in survivors), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("--only", default="", metavar="PATH", help="such as agents/racing/")
    runner.add_argument("--size", type=int, default=60)
    runner.add_argument("--seed", type=int, default=0)
    runner.add_argument("--session", type=Path, required=True)
    runner.add_argument("--again", action="store_true", help="judge survivors once more")
    commands.add_parser("table").add_argument("sessions", type=Path, nargs="+")
    options = vars(parser.parse_args())
    if options.pop("command") == "run":
        run(**options)
    else:
        print_table(**options)


if __name__ == "__main__":
    main()
