"""Does distance from exact Thompson sampling matter? Regret lost against total variation.

Agents and outsiders in all worlds of `fidelity-v1`: how far their law is from the posterior's,
and what they lose beside exact Thompson sampling in the same worlds with the same noise, at three
horizons. Runs are kept in the folder; what is there is not run again.

    python scripts/does_distance_matter.py --scale 1
    python scripts/does_distance_matter.py --scale 0.01 --only opposed    # worlds of that name
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

sys.path.insert(1, str(Path(__file__).parents[1]))
from cost_of_distance import distances, regrets, report
from cost_of_distance.settings import CONTENDERS, DEAR, WORLDS, Contender
from pages.command import Task, add_scale, new_parser, scaled
from pages.page import write_page

from bandit_gym.experiments.executor import Workers

SIZES = {"horizon": 1000, "replications": 2000, "histories": 40, "scenarios": 800}
SEED = 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/does-distance-matter", 1)
    add_scale(parser)
    parser.add_argument("--only", nargs="+", default=[""], help="worlds that have one of these")
    text = "without agents that cost over some 100 µs a decision"
    parser.add_argument("--without-dear", action="store_true", help=text)
    options = parser.parse_args(arguments)
    names = [name for name in WORLDS if any(text in name for text in options.only)]
    if not names:
        parser.error(f"--only must be part of a world's name, got {' '.join(options.only)!r}.")
    workers = Workers("serial") if options.workers == 1 else Workers(num_workers=options.workers)
    task = Task(scaled(SIZES, options.scale), options.out, workers)
    chosen = [each for each in CONTENDERS if each.share > DEAR or not options.without_dear]
    tables = [_measure(name, task, chosen) for name in names]
    found = pd.concat(tables, ignore_index=True)
    found.drop(columns="lost").to_csv(options.out / "does-distance-matter.csv", index=False)
    command = f"python scripts/does_distance_matter.py --scale {options.scale:g}"
    command += " --without-dear" * options.without_dear
    if names != list(WORLDS):
        command += f" --only {shlex.join(options.only)}"
    text = report.describe(found, command)
    problems = {name: WORLDS[name].problem for name in names}
    sections = report.tell(found, problems, task.sizes["scenarios"])
    page = options.out / "does-distance-matter.md"
    write_page(page, report.TITLE, text, sections)
    print(f"page: {page}")
    return 0


def _measure(name: str, task: Task, contenders: Sequence[Contender]) -> pd.DataFrame:
    """Return a row per agent and horizon in one world."""
    problem, kind = WORLDS[name].problem, WORLDS[name].kind
    chosen = [each for each in contenders if kind not in each.lacks]
    lost = regrets.play(task, name, problem, chosen)
    histories = distances.come_by(
        WORLDS[name], regrets.horizons_of(task), task.sizes["histories"], SEED
    )
    tables, failures = [], dict(zip(lost["agent"], lost["failure"], strict=True))
    for each in chosen:
        try:
            table = distances.measure(each, problem, histories, SEED)
        except ValueError as error:
            failures[each.label] = failures[each.label] or str(error)
        else:
            tables.append(table.assign(agent=each.label))
    means = pd.concat(tables).groupby(["agent", "horizon"], sort=False).mean().reset_index()
    lost["failure"] = lost["agent"].map(failures)
    return lost.merge(means, "left", ["agent", "horizon"]).assign(world=name, kind=kind)


if __name__ == "__main__":
    sys.exit(main())
