import numpy as np
import pytest

from agents.oracle import GIBBS_TOLERANCE, action_probabilities, action_probabilities_with_error
from bandit_gym.fidelity.suite import load_suite
from bandit_gym.likelihoods import LIKELIHOODS

DIGEST = "69f2611fc063"
SUITE = load_suite("fidelity-v1")
DEPENDENT = [case for case in SUITE.cases if case.kind == "dependent"]


def test_suite_is_what_it_was_when_it_was_published():
    assert SUITE.digest.startswith(DIGEST)


def test_suite_covers_likelihoods_priors_arms_and_pulls():
    cases = SUITE.cases
    assert len(cases) >= 40
    assert len({case.name for case in cases}) == len(cases)
    assert {case.problem.likelihood.name for case in cases} == set(LIKELIHOODS)
    kinds = {"conjugate", "truncated", "mixture", "rare", "dependent"}
    assert {case.kind for case in cases} == kinds
    assert {len(case.law) for case in cases} >= {2, 50}
    assert {case.counts.sum() for case in cases} >= {0, 10**6}


def test_laws_sum_to_one_and_have_an_error_bound():
    for case in SUITE.cases:
        assert len(case.law) == case.problem.num_arms == len(case.counts) == len(case.sums)
        assert abs(case.law.sum() - 1) < 1e-9 and (case.law >= 0).all()
        assert 0 < case.error < 1e-6


@pytest.mark.parametrize("kind", ["conjugate", "truncated", "mixture", "rare"])
def test_stored_answers_agree_with_the_oracle(kind):
    few = [case for case in SUITE.cases if case.kind == kind and len(case.law) <= 10]
    for case in few[::3]:
        law, error = action_probabilities_with_error(case.problem, case.counts, case.sums)
        # 1e-9: digits that another processor may round otherwise
        assert np.abs(law - case.law).max() <= case.error + error + 1e-9, case.name


@pytest.mark.parametrize("case", DEPENDENT, ids=lambda case: case.name)
def test_stored_answers_of_dependent_arms_agree_with_long_chains(case):
    tolerance = 5 * GIBBS_TOLERANCE
    found = action_probabilities(case.problem, case.counts, case.sums, tolerance=tolerance)
    assert np.abs(found - case.law).max() <= 2 * tolerance  # which is two standard errors


def test_games_are_one_case_of_each_problem():
    games = SUITE.games()
    assert len(games) == len({case.world for case in SUITE.cases if case.is_game}) >= 5


def test_only_keeps_the_cases_that_are_named():
    assert all("rare" in case.name for case in SUITE.only("rare").cases)
    with pytest.raises(ValueError, match="only must be part of a case's name in fidelity-v1"):
        SUITE.only("no such case")


def test_unknown_suite_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="nearest known one is 'fidelity-v1'"):
        load_suite("fidelity-v0")


def test_a_name_that_is_no_text_is_one_sentence():
    with pytest.raises(TypeError, match=r"suite must be one of 'fidelity-v1', got \['x'\]"):
        load_suite(["x"])
