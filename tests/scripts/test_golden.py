"""The numbers that this results version promises: see `scripts/golden.py`."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import golden
import moved
import pytest
from golden import CASES, ENVIRONMENTS, ENVIRONMENTS_WITH_FEATURES

from bandit_gym.files import RESULTS_VERSION

CONSTRAINTS = (golden.REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
HASHED_PACKAGES = ("numpy", "scipy", "numba", "gymnasium")
IS_REFERENCE = all(f"{name}=={version(name)}" in CONSTRAINTS for name in HASHED_PACKAGES)
"""Whether the packages that decide the numbers are those of `constraints.txt`."""


OF_CHAINS = "bayes_ucb", "epsilon_greedy", "knowledge_gradient", "optimistic_gittins"
OF_CHAINS += "finite_horizon_gittins", "information_directed", "top_two"
"""Rules whose questions to chains, of which each takes 20 ms, `greedy` asks too."""


def is_dear(case):
    return case[0] == "DependentPriorBandit-v0" and case[2] in OF_CHAINS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("environment", "are_dear"),
    [
        *((each, False) for each in (*ENVIRONMENTS, *ENVIRONMENTS_WITH_FEATURES)),
        pytest.param(("DependentPriorBandit-v0", {}), True, marks=pytest.mark.nightly),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else f"{value[0]} {[*value[1]]}",
)
def test_numbers_are_those_of_the_results_version(environment, are_dear):
    """With other packages than those of constraints.txt they are the same a second time."""
    cases = [case for case in CASES if case[:2] == environment and is_dear(case) == are_dear]
    cases = {golden.name_case(*case): case for case in cases}
    assert cases
    found = {name: golden.digest(*case) for name, case in cases.items()}
    if IS_REFERENCE:
        expected = {name: golden.load_digests()["digests"][name] for name in cases}
    else:
        expected = {name: golden.digest(*case) for name, case in cases.items()}
    assert found == expected, (
        "raise RESULTS_VERSION in bandit_gym/files.py, say why in CHANGELOG.md, and run "
        "python scripts/golden.py --renew"
    )


@pytest.mark.nightly
@pytest.mark.skipif(not IS_REFERENCE, reason="package versions differ from constraints.txt")
def test_linear_algebra_of_another_processor_draws_the_same_numbers():
    worlds = ("Poisson", "DependentPrior", "Contextual")  # sums of products, matrices
    learners = ("exact", "racing", "smc", "bayes_ucb")  # other rules ask the same posteriors
    cases = [each for each in CASES if each[0].startswith(worlds) and each[2].startswith(learners)]
    code = f"import golden; print(*[golden.digest(*case) for case in {cases!r}])"
    found = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-c", code],
        text=True,
        cwd=golden.REPOSITORY / "scripts",
        env=os.environ | {"OPENBLAS_CORETYPE": "Prescott"},  # runs on every x86
    )
    digests = golden.load_digests()["digests"]
    assert found.split() == [digests[golden.name_case(*case)] for case in cases]


def test_stored_digests_are_those_of_this_version_and_no_others():
    stored = golden.load_digests()
    assert stored["results_version"] == RESULTS_VERSION
    assert set(stored["digests"]) == {golden.name_case(*case) for case in CASES}


def test_adding_plays_new_cases_alone_and_leaves_those_that_are_stored(tmp_path, monkeypatch):
    stored, name = golden.load_digests(), golden.name_case(*CASES[0])
    others = dict.fromkeys(stored["digests"].keys() - {name}, "0" * 16)
    monkeypatch.setattr(golden, "DIGESTS_FILE", tmp_path / "golden.json")
    golden.DIGESTS_FILE.write_text(json.dumps(stored | {"digests": others}))
    assert golden.main(["--add"]) == 0
    assert golden.load_digests()["digests"] == others | {name: golden.digest(*CASES[0])}


def test_what_a_page_plays_is_compared_and_nothing_else():
    settled = "BernoulliBandit-v0 {} racing_paper {}", 'BernoulliBandit-v0 {} exact {"prior": "x"}'
    others = "PoissonBandit-v0 {} exact {}", "BernoulliBandit-v0 {} moss {}"
    old = dict.fromkeys((*settled, *others), "0")
    new = old | {settled[1]: "1", others[0]: "1", others[1]: "1"}
    assert moved.find_moved("paper", old, new) == ([settled[1]], 2)


def test_renewing_is_refused_where_a_number_changed_and_the_version_did_not():
    stored = golden.load_digests()
    name = next(iter(stored["digests"]))
    changed = stored["digests"] | {name: "0" * 16}
    with pytest.raises(ValueError, match=f"must be above {RESULTS_VERSION}"):
        golden.renew(changed, stored)
    new = json.loads(golden.renew(stored["digests"] | {"new": "1" * 16}, stored))
    assert new["results_version"] == RESULTS_VERSION  # for a new case changes no number
    older = stored | {"results_version": RESULTS_VERSION - 1}
    assert json.loads(golden.renew(changed, older))["digests"][name] == "0" * 16
