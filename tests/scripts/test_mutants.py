"""Drawing mutants and naming them; to run the tests against them takes minutes."""

from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason='mutants need pip install -e ".[mutants]"')

from mutants import (
    draw_mutants,
    identify_mutant,
    list_nearest_tests,
    list_sources,
    read_seconds,
    without_annotations,
)

ROOM, SIZE = "bandit_gym/logs", 8


@pytest.fixture(scope="module")
def drawn():
    return draw_mutants(ROOM, SIZE, seed=1)


def places(items):
    return [identify_mutant(item.mutations[0]) for item in items]


def test_the_same_seed_draws_the_same_mutants(drawn):
    again, others = (draw_mutants(ROOM, SIZE, seed) for seed in (1, 2))
    assert places(drawn) == places(again) != places(others)
    assert len(set(places(drawn))) == SIZE


def test_mutants_are_of_the_files_that_were_asked_for(drawn):
    paths = {item.mutations[0].module_path.as_posix() for item in drawn}
    assert all(path.startswith(ROOM) for path in paths)
    assert len(list_sources("")) == len(list_sources("agents/")) + len(list_sources("bandit_gym/"))


def test_annotations_are_not_broken():
    text = "def f(x: int | None) -> int | str:\n    y: int | None = 1 | 2\n    return y\n"
    broken = text.replace("int |", "int &"), text.replace("1 |", "1 &")
    assert [without_annotations(each) == without_annotations(text) for each in broken] == [
        True,
        False,
    ]


def test_tests_of_the_same_file_come_first_and_quick_ones_before_slow_ones():
    seconds = {
        "tests/agents/test_base.py::test_a": 0.1,
        "tests/agents/racing/test_normal.py::test_b": 2.0,
        "tests/agents/racing/test_sites.py::test_c": 0.5,
        "tests/agents/racing/test_normal.py::test_d[1-2]": 1.0,
    }
    found = list(list_nearest_tests(Path("agents/racing/normal.py"), seconds, left=4.0))
    assert [test[-6:] for test in found] == ["d[1-2]", "test_b", "test_c", "test_a"]
    assert list(list_nearest_tests(Path("agents/racing/normal.py"), seconds, left=1.5)) == found[:1]


def test_contract_that_imports_a_module_is_near_it():
    seconds = dict.fromkeys(
        ["tests/contracts/test_wrappers.py::a", "tests/contracts/test_executors.py::b"], 1.0
    )
    source = Path("bandit_gym/experiments/execution.py")
    assert next(list_nearest_tests(source, seconds, left=9.0)).endswith("::b")


def test_seconds_are_those_of_tests_that_passed(tmp_path):
    (tmp_path / "seconds.xml").write_text(
        '<testsuites><testsuite><testcase file="tests/a.py" name="test_b[1]" time="0.5"/>'
        '<testcase file="tests/a.py" name="test_c" time="0.1"><failure/></testcase>'
        "</testsuite></testsuites>"
    )
    assert read_seconds(tmp_path) == {"tests/a.py::test_b[1]": 0.5}
