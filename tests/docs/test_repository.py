"""What strangers find first: how to cite, what is checked where, and that nothing is published."""

import re
import tomllib

import yaml
from documents import ROOT, read

from bandit_gym.files import VERSION

PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
CITATION = yaml.safe_load(read("CITATION.cff"))
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in ROOT.glob(".github/*/*.yml")}
JOBS = WORKFLOWS["ci.yml"]["jobs"]
RELEASE = WORKFLOWS["release.yml"]["jobs"]
NIGHTLY = WORKFLOWS["nightly.yml"]["jobs"]
PYTHONS = [version.rpartition(" ")[2] for version in PROJECT["classifiers"] if "3." in version]


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_version_is_the_same_everywhere_and_the_papers_title_that_of_the_readme():
    assert PROJECT["version"] == CITATION["version"] == VERSION
    (paper,) = CITATION["references"]
    assert paper["title"] in " ".join(read("README.md").split())


def test_every_python_that_is_claimed_is_tested():
    assert JOBS["tests"]["strategy"]["matrix"]["python"] == PYTHONS
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]


def test_a_job_names_only_what_its_matrix_has_and_every_script_of_the_gate_is_a_job():
    for name, job in JOBS.items():
        matrix = job.get("strategy", {}).get("matrix", {})
        assert set(re.findall(r"matrix\.(\w+)", str(job))) == set(matrix), name
    run = {command for job in JOBS.values() for command in commands(job)}
    assert {f".ci/{path.name}" for path in (ROOT / ".ci").iterdir()} <= run


def test_what_the_tests_leave_out_runs_in_the_gate_or_each_night():
    assert "-m 'not pages and not nightly'" in read("pyproject.toml")
    assert "\nstep pytest\n" in read(".ci/run") and "\nstep pytest -m pages\n" in read(".ci/run")
    assert commands(NIGHTLY["nightly"])[-1] == "pytest -m nightly"


def test_a_wheel_is_tried_by_a_command_of_the_readme():
    (command,) = re.findall("`(bandit-gym compare --out .*?)`", read("README.md"))
    assert command in commands(JOBS["wheel"])[-1]
    assert f'bare/bin/bandit-gym" {command.partition(" ")[2]}\n' in read(".ci/package")


def test_nothing_is_published_unless_switched_on_with_a_known_homepage():
    assert {job["if"] for job in RELEASE.values()} == {"vars.PUBLISH == 'yes'"}
    assert RELEASE["publish"]["needs"] == "package"
    assert "grep '^urls = ' pyproject.toml" in commands(RELEASE["package"])
    assert ".invalid" not in read("pyproject.toml")


def test_actions_are_pinned_to_commits():
    jobs = [*JOBS.values(), *RELEASE.values(), *NIGHTLY.values()]
    steps = [step for job in jobs for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
