"""Code and links of the project's pages, as a reader would take them."""

import contextlib
import io
import linecache
import re
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = "docs/reference/agents/*.md", "docs/reference/environments/*.md"
PAGES = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")}
PAGES = tuple(sorted(PAGES - {page for kind in GENERATED for page in ROOT.glob(kind)}))
"""All that are written by hand; the build of the site writes others."""


def read(path):
    """Return the text of a page, or of what one of its headings stands above.

    Args:
        path: of the page, under the root; behind a "#" may stand a heading, as it is written.
    """
    page, _, heading = path.partition("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        (text,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ [A-Z]|\Z)", text, re.M | re.S)
    return text


def blocks(path, language="python"):
    """Return the blocks of code in what `read` returns."""
    return re.findall(rf"^```{language}\n(.*?)^```$", read(path), re.M | re.S)


def run(code, names=None):
    """Run a block of code, from outside all modules, and return what it prints.

    Its source is known under a name made of the text, as that of a notebook's cells is.
    """
    printed, place = io.StringIO(), f"<example {zlib.crc32(code.encode())}>"
    linecache.cache[place] = len(code), None, code.splitlines(keepends=True), place
    with contextlib.redirect_stdout(printed):
        exec(compile(code, place, "exec"), {"__name__": "example"} if names is None else names)
    return printed.getvalue()
