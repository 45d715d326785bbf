"""Which golden digests of what a page plays have moved since the version it was measured at.

    python scripts/moved.py             every page that a study writes
    python scripts/moved.py paper       one of them

A page may keep an older results version if none has moved. Older digests are those that git has of
`tests/golden.json`, so that a clone without history is refused. Digests are of 40 steps: equal ones
make it likely that later steps are equal too, and do not prove it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

import golden

from agents import AGENTS
from bandit_gym.checks import check_choice
from bandit_gym.experiments.provenance import find_texts
from bandit_gym.files import RESULTS_VERSION
from scripts.studies.study import DOCS, NAMES, load_settings

ENVIRONMENTS_OF = {
    "paper": ("Bernoulli", "DependentPrior"),
    "optimal": ("Bernoulli",),
    "sb3": ("Bernoulli", "DependentPrior", "Contextual"),
}
"""Beginnings of the environments that a page plays; those that play suites have some of all."""


def read_digests(version: int) -> dict[str, str]:
    """Return case -> digest as they stood at a results version.

    Raises:
        ValueError: if git has no digests of it.
    """
    path = golden.DIGESTS_FILE.relative_to(golden.REPOSITORY)
    for commit in _ask_git("log", "--format=%h", "--", str(path)).split():
        stored = json.loads(_ask_git("show", f"{commit}:{path}"))
        if stored["results_version"] == version:
            return dict(stored["digests"])
    raise ValueError(f"version must be one whose golden digests git has, got {version}.")


def _ask_git(*arguments: str) -> str:
    command = ["git", "-C", str(golden.REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout


def find_moved(page: str, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the cases of what a page plays whose digests differ, and how many there are."""
    agents = {text.removesuffix(".paper") for text in find_texts(load_settings(page))} & {*AGENTS}
    agents |= {"exact"} if "thompson" in agents else set()  # which does the same
    cases = [
        name
        for name in old
        if name.startswith(ENVIRONMENTS_OF.get(page, ""))
        and name.partition("} ")[2].rpartition(" {")[0].rpartition("} ")[2] in agents
    ]
    return [name for name in cases if old[name] != new[name]], len(cases)


def main(arguments: Sequence[str]) -> int:
    """Say for each page what has moved; return 1 if anything has."""
    has_moved, new = False, golden.load_digests()["digests"]
    for page in [check_choice("page", name, NAMES) for name in arguments] or NAMES:
        version = json.loads((DOCS / f"{page}.json").read_text(encoding="utf-8"))["results_version"]
        moved, count = find_moved(page, read_digests(version), new)
        has_moved |= bool(moved)
        print(f"{page}: version {version}, today {RESULTS_VERSION}; {len(moved)} of {count} moved")
        print(*(f"  {name}\n" for name in moved), sep="", end="")
    return int(has_moved)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(str(error))
