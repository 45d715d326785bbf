"""Tests lie where the code that they test lies, under its names."""

import pytest
from documents import ROOT

FOLDERS = ("agents", "bandit_gym", "scripts")
FILES = sorted(
    path.relative_to(ROOT / "tests")
    for folder in (*FOLDERS, ".")
    for path in (ROOT / "tests" / folder).glob("test_*.py" if folder == "." else "**/test_*.py")
)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_file_is_named_for_a_module_or_package(file):
    code = ROOT / file.parent / file.stem.removeprefix("test_")
    assert code.with_suffix(".py").is_file() or list(code.glob("*.py")), code


def test_there_are_files_of_every_folder():
    assert {file.parts[0] for file in FILES} >= set(FOLDERS)
