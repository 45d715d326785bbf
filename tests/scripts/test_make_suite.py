import json

import make_suite
import pytest

from agents.oracle import ToleranceError, importance
from bandit_gym.fidelity.suite import suite_file
from bandit_gym.likelihoods import Bernoulli


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A suite of two cases: one that the oracle answers, one that it refuses."""
    find_answer = make_suite.action_probabilities_with_error

    def refuse_bernoulli(problem, counts, sums):
        if isinstance(problem.likelihood, Bernoulli):
            raise ToleranceError("the error is 0.1", 0.1)
        return find_answer(problem, counts, sums)

    monkeypatch.setattr(make_suite, "action_probabilities_with_error", refuse_bernoulli)
    cases = json.loads(suite_file("adversarial").read_text(encoding="utf-8"))["cases"]
    names = ("Gaussian, vague prior", "Bernoulli, either or")
    return [case for case in cases if case["name"] in names], tmp_path / "small.json"


def write(cases, file):
    file.write_text(json.dumps({"name": "small", "cases": cases}), encoding="utf-8")


def test_answers_stay_as_they_are_and_the_one_that_the_oracle_finds_wrong_is_told(stored, capsys):
    cases, file = stored
    write(cases, file)
    before = file.read_bytes()
    assert make_suite.main([str(file)]) == 0
    printed = capsys.readouterr().out
    assert "Bernoulli, either or: left alone, the error is 0.1" in printed
    assert "1 of 2 answers are the oracle's" in printed
    assert file.read_bytes() == before
    cases[0]["law"] = [0.5, 0.3, 0.2]
    write(cases, file)
    assert make_suite.main([str(file)]) == 1
    assert "Gaussian, vague prior: the oracle says OTHERWISE" in capsys.readouterr().out


def test_an_answer_that_is_missing_is_found_where_the_oracle_can(stored):
    cases, file = stored
    expected = cases[0]["law"]
    write([{key: case[key] for key in case if key not in ("law", "error")} for case in cases], file)
    assert make_suite.main([str(file)]) == 1
    found, missing = json.loads(file.read_text(encoding="utf-8"))["cases"]
    assert found["law"] == pytest.approx(expected, abs=1e-6) and 0 < found["error"] < 1e-6
    assert "law" not in missing


def test_a_coarse_answer_becomes_finer_within_what_it_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_suite, "TOLERANCE", 4e-3)
    monkeypatch.setattr(make_suite, "CHAINS_TOLERANCE", 1e-2)
    monkeypatch.setattr(importance, "BATCH_SIZE", 2048)
    cases = json.loads(suite_file("contextual-v1").read_text(encoding="utf-8"))["cases"]
    name = "Bernoulli, disjoint, 3 arms of 2, 60 rows"
    (case,) = (case for case in cases if case["name"] == name)
    file, fine = tmp_path / "small.json", case["law"]
    coarse = case | {"law": [fine[0] + 0.01, fine[1] - 0.01, fine[2]]}
    write([coarse | {"error": 0.02}], file)
    assert make_suite.main([str(file), "--finer"]) == 0
    (found,) = json.loads(file.read_text(encoding="utf-8"))["cases"]
    assert found["error"] <= 4e-3 and found["chains_distance"] != case["chains_distance"]
    assert found["law"] == pytest.approx(fine, abs=2 * (found["error"] + case["error"]))
    assert {k: case[k] for k in ("name", "recipe")} == {k: found[k] for k in ("name", "recipe")}
    before = file.read_bytes()
    assert make_suite.main([str(file), "--finer"]) == 0  # it is fine now
    assert file.read_bytes() == before
    write([coarse | {"error": 0.005}], file)  # twice what it says, and found to be off by more
    before = file.read_bytes()
    assert make_suite.main([str(file), "--finer"]) == 1
    assert "the oracle says OTHERWISE" in capsys.readouterr().out
    assert file.read_bytes() == before
