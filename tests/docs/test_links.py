"""Files, modules and names that a page or a docstring speaks of are there."""

import io
import pkgutil
import re
import token
import tokenize

import pytest
from documents import PAGES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.pages]  # all that pages name is imported, also SB3

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
PATH = re.compile(r"`((?:agents|bandit_gym|docs|scripts|tests)/[\w./-]*)`")
NAME = re.compile(r"`((?:agents|bandit_gym)(?:\.\w+)+)[`(]")
SOURCE_ROOMS = ("agents", "bandit_gym", "scripts", "tests")
SOURCES = tuple(path for room in ("agents", "bandit_gym") for path in (ROOT / room).rglob("*.py"))
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def lost(pattern, folder_of):
    """Return (page, path) of what a pattern finds in pages that is no file from a folder on."""
    found = {(page, path) for page, text in TEXTS.items() for path in pattern.findall(text)}
    assert len(found) > 20
    return {(str(page), path) for page, path in found if not (folder_of(page) / path).exists()}


def test_links_and_paths_lead_to_files():
    assert lost(LINK, lambda page: page.parent) == lost(PATH, lambda page: ROOT) == set()


def is_a_name(name):
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_modules_and_names_in_pages_and_docstrings_exist():
    texts = TEXTS | {path: path.read_text(encoding="utf-8") for path in SOURCES}
    names = {path.relative_to(ROOT): NAME.findall(text) for path, text in texts.items()}
    unknown = {(str(path), name) for path in names for name in names[path] if not is_a_name(name)}
    assert unknown == set()


CODE = re.compile(r"^```.*?^```", re.M | re.S)
SPAN = re.compile(r"`([A-Za-z_]\w*(?:\.(?!md|toml|tex|cff)[A-Za-z_]\w*)*)(?:\([^`]*\))?`")
OTHERS = {"PUBLISH", "SummaryWriter", "add_scalar", "bayesianbandits", "coba", "mypy", "pmap"}
OTHERS |= {"pytest", "ruff", "RecordVideo", "q₀"}
"""Names in prose that are not ours."""


def known_words():
    """Return all names of our code, and words in its strings, as short names are."""
    words = set(OTHERS)
    for path in (path for room in SOURCE_ROOMS for path in (ROOT / room).rglob("*.py")):
        words |= {path.stem, path.parent.name}
        source = io.StringIO(path.read_text(encoding="utf-8"))
        for kind, text, *_ in tokenize.generate_tokens(source.readline):
            if kind == token.NAME:
                words.add(text)
            elif kind == token.STRING:
                words |= {*re.findall(r"[\w.-]+", text)}
    return words


def test_names_in_prose_are_those_of_code():
    known = known_words()
    for page, text in TEXTS.items():
        own = known | {*re.findall(r"\w+", " ".join(CODE.findall(text)))}
        named = {*SPAN.findall(CODE.sub("", text))} if page.name != "CHANGELOG.md" else ()
        unknown = sorted(name for name in named if name.rpartition(".")[2] not in own)
        assert unknown == [], page
