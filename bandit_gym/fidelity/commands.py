"""The command that puts agents and samplers to a suite.

Nothing heavy is loaded before it is carried out: the parser of every command is made first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from bandit_gym.checks import check_folder
from bandit_gym.experiments.command_line import parse_agent
from bandit_gym.experiments.provenance import HERE, importing_from
from bandit_gym.fidelity.benchmark import run_suite
from bandit_gym.fidelity.leaderboard import describe_leaderboard, describe_verdicts
from bandit_gym.fidelity.suite import load_suite
from bandit_gym.results.commands import FAILED, OK


def fidelity(options: argparse.Namespace) -> int:
    """Put agents and samplers to a suite of cases, print what came of it, and write it.

    The exit code is 1 if one fails, or is WRONG in a suite that is judged.
    """
    folder = check_folder("out", options.out)
    with importing_from(HERE):
        found = run_suite(
            [parse_agent(text) for text in options.agents],
            suite=options.suite,
            only=options.only,
            scale=options.scale,
            seed=options.seed,
            workers=options.workers,
        )
    is_judged = load_suite(found.suite).is_judged
    if is_judged:
        print(describe_verdicts(found.distances))
    else:
        print(describe_leaderboard(found.leaderboard()))
    for failure in found.failures:
        print(f"bandit-gym: {failure}", file=sys.stderr)
    found.write(folder)
    print(f"\nTables and picture: {folder}")
    is_wrong = is_judged and (found.distances["verdict"] == "WRONG").any()
    return FAILED if found.failures or is_wrong else OK


def _take_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agents",
        nargs="+",
        default=["exact"],
        metavar="NAME[:OPTION=VALUE,...]",
        help="agents and samplers, by short name or module:name; default: exact",
    )
    parser.add_argument("--out", default="results/fidelity", help="folder; default: %(default)s")
    text = "fidelity-v1, or adversarial for a verdict on each case; default: %(default)s"
    parser.add_argument("--suite", default="fidelity-v1", metavar="NAME", help=text)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains it")
    text = "share of 10,000 decisions a case; default: 1"
    parser.add_argument("--scale", type=float, default=1.0, help=text)
    parser.add_argument("--seed", type=int, default=0)
    text = "how many; default: one per core"
    parser.add_argument("--workers", type=int, help=text)


COMMANDS: dict[Callable[[argparse.Namespace], int], tuple[Any, ...]] = {
    fidelity: ("measure how near agents and samplers are to exact Thompson sampling", _take_suite),
}
"""The command, what it does, and which arguments it takes."""
