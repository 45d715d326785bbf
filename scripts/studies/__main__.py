"""Measure one of the studies, and write its page and the numbers on it.

    python -m scripts.studies exact                 # docs/exact.json, exact.md and its picture
    python -m scripts.studies exact --scale 0.001   # smaller, into build/studies/exact
    python -m scripts.studies paper --only "Table 2"    # these parts, and the stored others
    python -m scripts.studies --tell                # the pages again, from their numbers
    python -m scripts.studies --check               # is any table not what its numbers say?

Run it from the project's root. A study that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bandit_gym.checks import check_choice, check_real
from bandit_gym.experiments.execution import Workers
from scripts.studies.study import (
    BUILD,
    DOCS,
    NAMES,
    find_edited_tables,
    load_settings,
    measure_study,
    write_pages,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.studies", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("name", nargs="?", default="", help=", ".join(NAMES))
    parser.add_argument("--scale", type=float, help="default: that of the page")
    parser.add_argument("--workers", type=int, help="processes; default: one per core")
    parser.add_argument("--only", nargs="+", default=(), help="how names of parts to measure begin")
    parser.add_argument("--tell", action="store_true", help="write the pages anew from their JSON")
    parser.add_argument("--check", action="store_true", help="name tables that were edited by hand")
    options = parser.parse_args(arguments)
    if options.check:
        edited = find_edited_tables()
        print(*(f"{name} is not what the stored numbers say\n" for name in edited), sep="", end="")
        return int(bool(edited))
    if options.tell:
        print("\n".join(map(str, write_pages())))
        return 0
    try:
        name = check_choice("name", options.name, NAMES)
        full = load_settings(name)["scale"]
        scale = full if options.scale is None else options.scale
        check_real("scale", scale, above=0.0)
        folder = BUILD / name if scale < full else DOCS
        backend = "serial" if options.workers == 1 else "loky"
        workers = Workers(backend, options.workers)
        page = measure_study(name, scale, folder, workers, options.only)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    print(f"page: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
