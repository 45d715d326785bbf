"""Checks the types of the code that pages show, as a reader's own mypy would.

    python scripts/type_pages.py

Each page becomes a module of its Python blocks, on the lines that they have in the page, so that
mypy names these. It shares mypy's cache with the check of the packages, and takes seconds after it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
PLACE = ROOT / ".mypy_cache" / "pages"
"""Where modules are written; mypy knows them as `pages.NAME`, see pyproject.toml."""


def module_of(page: str) -> str:
    """Return the Python blocks of a page, each on its own lines, and no others."""
    lines, is_code = [], False
    for line in page.splitlines():
        is_fence = line.startswith("```")
        lines.append(line if is_code and not is_fence else "")
        is_code = line == "```python" or (is_code and not is_fence)
    return "\n".join(lines) + "\n"


def name_of(path: Path) -> str:
    """Return a page's path as the name of a module."""
    return re.sub(r"\W", "_", str(path.relative_to(ROOT).with_suffix("")))


def main() -> int:
    """Write the modules, check them, and return mypy's exit code."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for old in PLACE.glob("*.py"):
        old.unlink()
    (PLACE / "__init__.py").touch()
    modules = {name_of(path): module_of(path.read_text(encoding="utf-8")) for path in PAGES}
    for name, text in modules.items():
        if text.strip():
            (PLACE / f"{name}.py").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, "-m", "mypy", str(PLACE)], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
