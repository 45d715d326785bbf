"""The numbers that this results version promises: see `scripts/golden.py`."""

import json
import os
import subprocess
import sys

import golden
import pytest
from golden import CASES

from bandit_gym.checks.files import RESULTS_VERSION


def run_python(code, **environment):
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=golden.ROOT / "scripts",
        env=os.environ | environment,
    )
    return found.stdout


on_reference_machine = pytest.mark.skipif(
    not golden.is_reference_machine(), reason="package versions differ from constraints.txt"
)


@on_reference_machine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: golden.name_case(*case))
def test_numbers_are_those_of_the_results_version(case):
    name = golden.name_case(*case)
    assert golden.digest(*case) == golden.load()["digests"][name], (
        "raise RESULTS_VERSION in bandit_gym/checks/files.py, say why in CHANGELOG.md, and run "
        "python scripts/golden.py --renew"
    )


@on_reference_machine
def test_linear_algebra_of_another_processor_draws_the_same_numbers():
    worlds = ("Poisson", "DependentPrior")  # sums of products, and matrices
    cases = [case for case in CASES if case[0].startswith(worlds)]
    code = f"import golden; print(*[golden.digest(*case) for case in {cases!r}])"
    found = run_python(code, OPENBLAS_CORETYPE="Prescott")  # runs on every x86
    digests = golden.load()["digests"]
    assert found.split() == [digests[golden.name_case(*case)] for case in cases]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES[::5], ids=lambda c: golden.name_case(*c))
def test_same_seed_gives_the_same_numbers_on_any_version(case):
    assert golden.digest(*case) == golden.digest(*case)


def test_stored_digests_are_those_of_this_version_and_no_others():
    stored = golden.load()
    assert stored["results_version"] == RESULTS_VERSION
    assert set(stored["digests"]) == {golden.name_case(*case) for case in CASES}


def test_renewing_is_refused_where_a_number_changed_and_the_version_did_not():
    stored = golden.load()
    name = next(iter(stored["digests"]))
    changed = stored["digests"] | {name: "0" * 16}
    with pytest.raises(ValueError, match=f"must be above {RESULTS_VERSION}"):
        golden.renew(changed, stored)
    older = stored | {"results_version": RESULTS_VERSION - 1}
    assert json.loads(golden.renew(changed, older))["digests"][name] == "0" * 16


def test_a_new_case_needs_no_new_version():
    stored = golden.load()
    content = json.loads(golden.renew(stored["digests"] | {"new": "1" * 16}, stored))
    assert content["results_version"] == RESULTS_VERSION
