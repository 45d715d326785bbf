"""Files, modules and names that a page or a docstring speaks of are there."""

import pkgutil
import re

import pytest
from documents import PAGES, ROOT

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
PATH = re.compile(r"`((?:agents|bandit_gym|docs|scripts|tests)/[\w./-]*)`")
NAME = re.compile(r"`((?:agents|bandit_gym)(?:\.\w+)+)[`(]")
SOURCES = tuple(path for room in ("agents", "bandit_gym") for path in (ROOT / room).rglob("*.py"))
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_links_lead_to_files(page):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@every_page
def test_paths_in_prose_are_those_of_files(page):
    paths = PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in paths if not (ROOT / path).exists()] == []


def is_a_name(name):
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_modules_and_names_in_pages_and_docstrings_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in (*PAGES, *SOURCES)}
    names = {path.relative_to(ROOT): NAME.findall(text) for path, text in texts.items()}
    unknown = {(str(path), name) for path in names for name in names[path] if not is_a_name(name)}
    assert unknown == set()


def test_there_are_pages_with_links_and_paths():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert len(LINK.findall(text)) > 20
    assert len(PATH.findall(text)) > 20
