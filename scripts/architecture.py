"""Writes into docs/architecture.md what the code itself can tell: rooms, arrows and walks.

    python scripts/architecture.py            brings the page up to date
    python scripts/architecture.py --check    exits with 1 if it is not

What stands between `<!-- NAME: generated -->` and `<!-- NAME: end -->` is written, the rest prose.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from house.drawing import count, draw
from house.imports import PACKAGES, ROOT, read_house
from house.walks import DECISIONS, block, decision

PAGE = ROOT / "docs" / "architecture.md"


def generated() -> dict[str, str]:
    """Return name -> Markdown of every generated part of the page."""
    drawings = {package: draw(read_house(package)) for package in PACKAGES}
    walks = [_walk(name, decision(name)) for name in DECISIONS]
    return drawings | {"walks": "\n".join([*walks, _walk("One block of an experiment", block())])}


def renew(page: str) -> str:
    """Return the page with every generated part as the code is now.

    Raises:
        ValueError: if the page has no place for a part.
    """
    for name, text in generated().items():
        begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        pattern = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"{PAGE.name} must have one pair of lines {begin!r} and {end!r}.")
        page = pattern.sub(lambda _, text=text: f"\n{text}\n\n", page)
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or say that it is out of date; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if it is out of date")
    options = parser.parse_args(arguments)
    old = PAGE.read_text(encoding="utf-8")
    new = renew(old)
    if options.check:
        if new != old:
            print("docs/architecture.md must be up to date; run python scripts/architecture.py.")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    for package in PACKAGES:
        print(count(read_house(package)))
    return 0


def _walk(name: str, files: Sequence[str]) -> str:
    stops = " → ".join(f"`{file}`" for file in files)
    return f"- **{name}** ({len(files)}): {stops}"


if __name__ == "__main__":
    sys.exit(main())
