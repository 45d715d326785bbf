import fidelity
import numpy as np
import pandas as pd
import pytest
from benchmarks.plain_numpy import reference_sampler
from distances import measure, report, settings
from distances.histories import advance, play
from distances.resampling import log_reference, resampling_law
from numpy.random import SeedSequence
from studies import run_study

from agents import make_agent
from agents.oracle import action_probabilities_with_error
from bandit_gym.fidelity.distance import total_variation
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, InverseGamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem

CONJUGATE = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
COUNTS, SUMS = np.array([4, 9, 2]), np.array([2.0, 5.0, 0.0])


@pytest.fixture(scope="module")
def histories():
    return play(CONJUGATE, (0, 5, 40), SeedSequence(3), tolerance=None)


def test_play_reaches_the_steps_with_their_exact_probabilities(histories):
    np.testing.assert_array_equal(histories.counts.sum(axis=1), [0, 5, 40])
    assert (np.diff(histories.counts, axis=0) >= 0).all()
    np.testing.assert_allclose(histories.probabilities[0], 1 / 3, atol=1e-6)
    assert (histories.errors <= 1e-6).all()


def test_advance_brings_every_lane_to_each_step(histories):
    agent = make_agent("exact", CONJUGATE)
    agent.reset(2, seed=0)
    for h in advance(agent, histories):
        np.testing.assert_array_equal(agent.counts, np.tile(histories.counts[h], (2, 1)))
        np.testing.assert_allclose(agent.sums, np.tile(histories.sums[h], (2, 1)))


def test_measure_finds_exact_thompson_sampling_within_its_noise(histories):
    setting = settings.Setting("exact", "exact")
    rows = measure.measure(CONJUGATE, setting, histories, 1.0, SeedSequence(1))
    assert [row["decisions"] for row in rows] == [10_000] * 3
    # The floor's mean and its 97.5 % quantile are two standard deviations apart: allow four.
    assert all(row["excess"] <= 2 * (row["floor_high"] - row["floor"]) for row in rows)


def test_measure_finds_the_wrong_prior_at_its_exact_distance(histories):
    setting = settings.Setting("reference", "exact", {"prior": "reference"}, num_decisions=20_000)
    row = measure.measure(CONJUGATE, setting, histories, 1.0, SeedSequence(1))[1]
    wrong = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    law = action_probabilities_with_error(wrong, histories.counts[1], histories.sums[1])[0]
    expected = total_variation(law, histories.probabilities[1])
    tolerance = 4 * np.sqrt(law * (1 - law) / 20_000).sum() / 2
    assert abs(row["tv"] - expected) <= tolerance


def test_measure_shows_that_a_single_run_of_particles_is_far_off(histories):
    setting = next(each for each in settings.SETTINGS if each.label == "smc, 100 particles")
    last = measure.measure(CONJUGATE, setting, histories, 0.1, SeedSequence(1))[-1]
    assert last["single_run_excess"] > last["excess"]


def test_measure_reports_the_words_of_an_agent_that_refuses(histories):
    narrow = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1, low=0.5, high=0.501), 3)
    setting = settings.Setting("one sample", "racing", {"proposal": "reference", "stopping": 1})
    rows = measure.measure(narrow, setting, histories, 0.01, SeedSequence(1))
    assert all("prior.log_density must be above -inf" in row["failure"] for row in rows)
    assert not any("tv" in row for row in rows)


def test_measure_leaves_out_an_agent_that_cannot_treat_the_problem(histories):
    setting = settings.Setting("gibbs", "exact", {"method": "gibbs"})
    assert measure.measure(CONJUGATE, setting, histories, 0.01, SeedSequence(1)) == []


@pytest.mark.parametrize(
    ("likelihood", "low", "high"),
    [(Bernoulli(), 0, 1), (Exponential(), 0.05, 30), (Poisson(), 0, 12)],
)
def test_reference_draws_have_the_density_of_reference_times_likelihood(likelihood, low, high, rng):
    grid = np.linspace(low, high, 200_001)[1:-1]
    logs = log_reference(likelihood, grid) + likelihood.log_likelihood(grid, 9, 5.0)
    weights = np.exp(logs - logs.max())
    mean = np.average(grid, weights=weights)
    std = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    draws = reference_sampler(likelihood.name, rng, np.array([9]), np.array([5.0]))((20_000, 1))
    assert abs(draws.mean() - mean) <= 4 * std / np.sqrt(20_000)


def test_resampling_law_of_one_sample_is_the_law_under_the_reference_prior(rng):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 3)
    law = resampling_law(problem, (COUNTS, SUMS), 1, 20_000, rng)
    reference = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    expected = action_probabilities_with_error(reference, COUNTS, SUMS)[0]
    tolerance = 4 * np.sqrt(expected * (1 - expected) / 20_000)
    assert (np.abs(law - expected) <= tolerance).all()


def test_resampling_law_of_many_samples_is_the_exact_law(rng):
    problem = BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 3)
    law = resampling_law(problem, (COUNTS, SUMS + 1), 1000, 200, rng)
    expected = action_probabilities_with_error(problem, COUNTS, SUMS + 1)[0]
    # An effective sample size above 20 of 1000 in each of 200 sets: at least 4000 draws.
    tolerance = 4 * np.sqrt(expected * (1 - expected) / 4000)
    assert (np.abs(law - expected) <= tolerance).all()


def test_resampling_law_is_none_when_an_arm_has_no_reference_posterior(rng):
    problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)
    assert resampling_law(problem, (np.array([3, 0]), np.array([1.0, 0.0])), 1, 10, rng) is None


def test_settings_have_labels_of_their_own():
    labels = [setting.label for setting in settings.SETTINGS]
    assert len(set(labels)) == len(labels)
    assert {report.CLAIM_SETTING, report.MATCHED_SETTING, report.MOVES_SETTING} <= set(labels)


def test_fidelity_writes_table_and_page(shared):
    done = run_study("python scripts/fidelity.py --quick --scale 0.002", shared)
    folder = done.folder / "results/fidelity"
    results = pd.read_csv(folder / "fidelity.csv")
    assert set(results["setting"]) <= {setting.label for setting in settings.SETTINGS}
    assert results[["tv", "floor", "microseconds"]].notna().all(axis=None)
    page = (folder / "fidelity.md").read_text()
    assert f"--scale 0.002`, results version {RESULTS_VERSION}." in page and "## Verdict" in page


def test_flags_are_counted_where_the_law_is_far_and_where_it_is_near():
    row, flags = {}, np.array([0.9, 0.5, 0.1])
    measure.add_flags(row, np.array([0.2, 0.04, 0.01]), (0.01, 0.02), flags)
    assert row == {"far": 1, "far_flagged": 0.9, "near": 1, "near_flagged": 0.1}


def test_measure_counts_flags_of_runs_of_particles(histories):
    setting = next(each for each in settings.SETTINGS if each.label == "smc, 100 particles")
    for row in measure.measure(CONJUGATE, setting, histories, 0.01, SeedSequence(1)):
        assert row["far"] + row["near"] <= measure.NUM_RUNS
        assert 0 <= row["far_flagged"] <= row["far"]


@pytest.fixture
def flagged():
    """Rows of the settings whose flags are judged, as many as asked for and flagged as asked."""

    def make(far_flagged=9.0, near_flagged=0.9, exact=0.0):
        row = {"far": 10, "far_flagged": far_flagged, "near": 10, "near_flagged": near_flagged}
        rows = [
            {"setting": label, "family": "some", "is_unreliable": 0.0, **row}
            for label in (report.CLAIM_SETTING, report.PARTICLES_SETTING, report.MATCHED_SETTING)
        ]
        rows.append({"setting": "exact", "family": "exact", "is_unreliable": exact, **row})
        return pd.DataFrame(rows)

    return make


@pytest.mark.parametrize(
    ("shares", "holds"),
    [((9.0, 0.9), "holds"), ((8.9, 0.9), "holds in part"), ((8.9, 1.0), "does not hold")],
)
def test_flags_of_the_paper_hold_at_nine_far_and_under_one_near(shares, holds, flagged):
    assert report._true_flags_verdict(flagged(*shares)).holds == holds


def test_flags_of_exact_agents_hold_below_two_in_a_hundred(flagged):
    assert report._false_flags_verdict(flagged(exact=0.019)).holds == "holds"
    verdict = report._false_flags_verdict(flagged(exact=0.02))
    assert verdict.holds == "holds in part"
    assert "exact: 2.00%" in verdict.evidence


def test_fidelity_gives_the_same_distances_when_run_again(tmp_path):
    arguments = ["--quick", "--only", "exponential", "--scale", "0.002", "--seed", "5"]
    tables = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        fidelity.main(["--out", str(folder), *arguments])
        tables.append(pd.read_csv(folder / "fidelity.csv").drop(columns="microseconds"))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scale", "0"], "scale must be a number above 0"),
        (["--scale", "nan"], "scale must be a number above 0"),
        (["--quick", "--only", "Poisson, N"], "--only must be part of a problem's name, got 'Poi"),
        (["--only", "Cauchy"], "--only must be part of a problem's name, got 'Cauchy'"),
    ],
)
def test_fidelity_refuses_arguments_when_they_make_no_sense(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        fidelity.main(["--out", str(tmp_path / "none"), *arguments])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
