"""The study of other people's libraries: what adapters are given, and what they are measured by."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from surface import assert_played

from bandit_gym.likelihoods import Gaussian
from scripts.studies import environments, libraries
from scripts.studies.study import StudyTask, Workers, load_settings

SAMPLERS = load_settings("libraries")["samplers"]
load_cases = cache(libraries.load_cases)
NUM_DRAWS = 20_000


def test_rewards_have_the_sums_of_the_case_and_gaussian_ones_its_noise():
    plain = [case for case in load_cases().values() if case.kind == "conjugate"]
    for case in (case for case in plain if case.counts.sum() <= 10_000):
        rewards = np.split(libraries.spread_rewards(case), np.cumsum(case.counts)[:-1])
        sums = [each.sum() for each in rewards]
        np.testing.assert_allclose(sums, case.sums, atol=1e-9, err_msg=case.name)
        if isinstance(case.problem.likelihood, Gaussian):
            stds = [each.std(ddof=1) for each in rewards if len(each) > 1]
            np.testing.assert_allclose(stds, case.problem.likelihood.std, err_msg=case.name)


def test_library_is_given_a_prior_of_its_family_alone():
    told, fixed = SAMPLERS["obp, BernoulliTS"], SAMPLERS["MABWiser, Thompson"]
    informed, truncated = "Bernoulli, Beta(5, 5), 100 pulls", "Bernoulli, N(0.5, 0.1) cut to"
    case = load_cases()[informed]
    assert libraries.find_stated_problem(told, case).prior == case.problem.prior
    assert libraries.find_stated_problem(fixed, case).prior.alpha == 1.0
    case = load_cases()[f"{truncated} [0, 1], 30 pulls"]
    assert libraries.find_stated_problem(told, case).prior.alpha == 1.0


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("MABWiser, LinTS", "one row"),
        ("MABWiser, Thompson", "Bernoulli, N(0.5, 0.1) cut to [0, 1], 30 pulls"),
    ],
)
def test_truth_under_the_stated_model_is_that_of_draws_of_its_posterior(label, name):
    case, rng = load_cases()[name], np.random.default_rng(0)
    problem = libraries.find_stated_problem(SAMPLERS[label], case)
    truth, error = libraries.find_truth(name, problem)
    if label == "MABWiser, Thompson":
        wins, size = case.sums, (NUM_DRAWS, len(case.sums))
        draws = rng.beta(1 + wins, 1 + case.counts - wins, size)
    else:
        precision = np.eye(case.rows.shape[1]) / problem.prior.std**2 + case.rows.T @ case.rows
        theta = rng.multivariate_normal(
            np.linalg.solve(precision, case.rows.T @ case.rewards),
            np.linalg.inv(precision),
            NUM_DRAWS,
        )
        draws = theta @ case.features.T
    assert error <= (1e-3 if case.kind == "disjoint" else 1e-5)
    assert_played(draws.argmax(axis=1), truth, 1e-3)


@pytest.mark.nightly
def test_adapter_that_fails_in_a_case_or_dies_is_reported(tmp_path, monkeypatch):
    (tmp_path / "some_adapter.py").write_text(
        f"import sys\nsys.path.insert(0, {str(environments.ADAPTERS)!r})\n"
        "from protocol import serve\n"
        "serve(lambda case: (lambda: 2) if case.seed == 0 else sys.exit('gone') if case.seed == 2"
        " else 1 / 0)\n"
    )
    monkeypatch.setattr(environments, "ADAPTERS", tmp_path)
    fields = libraries.encode_case(load_cases()["one row"], load_cases()["one row"].problem)
    asked = [fields | {"num_decisions": 5, "seed": seed, "sampler": ""} for seed in range(4)]
    first, *others = environments.ask_adapter(Path(sys.executable), "some", asked)
    assert first["counts"] == [0, 0, 5]
    errors = [each["error"] for each in others]
    assert errors == ["ZeroDivisionError: division by zero", "gone", "gone"]


def test_library_that_cannot_be_installed_is_missing_and_the_others_go_on(tmp_path, monkeypatch):
    def install(library):
        if library == "river":
            raise RuntimeError("pip failed: no such version")
        return tmp_path

    monkeypatch.setattr(libraries, "install_library", install)
    parts = libraries.parts(StudyTask(load_settings("libraries"), 1.0, tmp_path, Workers("serial")))
    assert parts["missing: river"]() == "pip failed: no such version"
    assert "sampler: obp, BernoulliTS" in parts and "sampler: river, Beta" not in parts


def test_formulas_of_releases_agree_with_the_right_ones_in_the_proofs_made_for_them():
    labels = "contextualbandits, LinTS, coef", "SMPyBandits, Gamma", "SMPyBandits, Gauss"
    unit, even, single = (load_cases()[SAMPLERS[label]["proof"]] for label in labels)
    precision = np.eye(unit.rows.shape[1]) / unit.problem.prior.std**2 + unit.rows.T @ unit.rows
    np.testing.assert_allclose(precision, np.eye(len(precision)), atol=1e-12)
    np.testing.assert_array_equal(even.counts, even.sums)
    assert (single.counts == 1).all()


def test_verdict_needs_a_proof_at_zero():
    for low, is_approximate, beyond, verdict in [
        (0.0, False, 0, "as stated"),
        (0.0, True, 3, "approximate"),
        (0.0, False, 1, "differs"),
        (0.3, True, 0, "not proven"),
    ]:
        sampler = {"is_approximate": is_approximate}
        assert libraries._judge(sampler, {"stated": {"low": low}}, beyond, 0.02) == verdict
        assert libraries._judge(sampler, {"error": "it failed"}, beyond, 0.02) == "not proven"
