from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from agents import ExactThompson
from bandit_gym.experiments.backends import Workers
from bandit_gym.fidelity import load_suite, run_suite
from bandit_gym.fidelity.benchmark import _paired
from bandit_gym.fidelity.trial import Game

HERE = Workers("serial")
CASE = "Bernoulli, Beta(5, 5)"
SMALL = {"only": CASE, "scale": 0.001, "workers": HERE}
GAME = "Gaussian, N(0, 1), 30 pulls"


def conjugate(problem, counts, sums, rng, size):
    """Draw from the posterior of Bernoulli arms."""
    prior = problem.prior
    shape = (size, problem.num_arms)
    return rng.beta(prior.alpha + sums, prior.beta + counts - sums, shape)


def uniform(problem, counts, sums, rng, size):
    """Draw all arms alike."""
    return rng.random((size, problem.num_arms))


def spoilt(problem, counts, sums, rng, size):
    """Return NaN once there are many data."""
    return np.full((size, problem.num_arms), np.nan if counts.sum() > 1000 else 0.5)


class NoWarmStart:
    """Plays the first arm."""

    def __init__(self, problem):
        self.problem = problem

    def reset(self, num_envs=None, seed=None):
        self.num_lanes = num_envs or 1

    def act(self, observation=None):
        return np.zeros(self.num_lanes, dtype=int)

    def observe(self, action, reward, mask=None):
        pass


@pytest.fixture(scope="module")
def found():
    agents = {"own": conjugate, "uniform": uniform, "spoilt": spoilt, "first": NoWarmStart}
    return run_suite(agents, **SMALL)


def row(found, agent, pulls):
    table = found.distances
    return table[(table["agent"] == agent) & (table["pulls"] == pulls)].iloc[0]


def test_a_sampler_of_the_posterior_is_within_noise(found):
    for pulls in (100, 10_000):
        assert row(found, "own", pulls)["low"] <= 0


def test_a_wrong_sampler_is_as_far_as_its_law(found):
    law = load_suite().only(CASE).cases[0].law
    truth = np.abs(law - 1 / len(law)).sum() / 2
    far = row(found, "uniform", 100)
    assert far["low"] <= truth <= far["high"]
    assert far["low"] > 0


def test_what_fails_in_a_case_is_told_there_and_the_rest_is_kept(found):
    assert row(found, "spoilt", 100)["status"] == "measured"
    failed = row(found, "spoilt", 10_000)
    assert failed["status"] == "failed"
    assert f"'{CASE}, 10,000 pulls' must be finite, got nan." in failed["words"]
    assert len(found.failures) == 1
    assert row(found, "own", 10_000)["status"] == "measured"


def test_an_agent_without_warm_start_takes_part(found):
    first = row(found, "first", 10_000)
    assert first["tv"] == pytest.approx(1 - load_suite().only(CASE).cases[1].law[0])


def test_long_histories_are_not_applicable_without_warm_start():
    long = run_suite([NoWarmStart], only="Beta(1, 1), 1,000,000 pulls", scale=1e-3, workers=HERE)
    assert long.distances["status"].tolist() == ["not applicable"]
    assert not long.failures


def test_exact_loses_nothing_against_exact_and_random_loses_much():
    found = run_suite(["exact", "random"], only=GAME, scale=0.02, workers=HERE)
    board = found.leaderboard().set_index("agent")
    assert board.loc["exact", "lost_low"] <= 0 <= board.loc["exact", "lost_high"]
    # the best of ten standard normal means is 1.54 above their average
    assert 1000 < board.loc["random", "lost"] < 1600
    assert board.index[0] == "exact"


@pytest.mark.parametrize(("scale", "num_runs"), [(0.1, 10), (0.5, 25)])
def test_a_game_has_fifty_runs_times_the_scale_and_ten_at_least(scale, num_runs, monkeypatch):
    monkeypatch.setattr("bandit_gym.fidelity.benchmark.HORIZON", 1)
    found = run_suite(["random"], only=GAME, scale=scale, workers=HERE)
    assert found.regrets["replication"].tolist() == [*range(num_runs)]


def test_numbers_depend_on_the_seed_alone_but_for_the_cost():
    one, again, other = (run_suite(["exact"], seed=s, **SMALL).distances for s in (1, 1, 2))
    pd.testing.assert_series_equal(one["tv"], again["tv"])
    assert not one["tv"].equals(other["tv"])


def test_results_are_written_as_parquet_table_and_picture(found, tmp_path):
    files = found.write(tmp_path / "new")
    assert [file.name for file in files] == [
        "distances.parquet", "regrets.parquet", "leaderboard.csv", "leaderboard.png",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_parquet(files[0]), found.distances)
    assert set(pd.read_csv(files[2])["agent"]) == {"own", "uniform", "spoilt", "first"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0}, "scale must be"),
        ({"scale": float("nan")}, "scale must be"),
        ({"seed": -1}, "seed must be"),
        ({"suite": "v2"}, "suite must be"),
        ({"only": "nothing like it"}, "only must be"),
        ({"agents": []}, "agents must have at least one entry"),
        ({"agents": [3]}, "agent must be a name"),
    ],
)
def test_bad_arguments_are_refused(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        run_suite(**{"agents": ["exact"], **SMALL} | options)


def test_progress_is_told_to_a_function_of_two_arguments_or_to_nobody():
    with pytest.raises(TypeError, match="on_progress must be a function of 2 arguments, got 0"):
        run_suite([conjugate], **SMALL, on_progress=0)


class Boasting(ExactThompson):
    told: ClassVar = {}

    def diagnostics(self):
        return self.told


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"is_unreliable": 7.0}, "diagnostics()['is_unreliable'] in"),
        ({"is_unreliable": np.zeros(3, dtype=bool)}, "must be True or False for"),
        ({"num_samples": -1}, "must be numbers of at least 0"),
    ],
)
def test_what_an_agent_says_of_itself_must_be_possible(told, words, monkeypatch):
    monkeypatch.setattr(Boasting, "told", told)
    case = "Beta(5, 5), 100 pulls"
    found = run_suite({"boasting": Boasting}, only=case, scale=0.001, workers=Workers("serial"))
    assert words in found.distances["words"].item()


def test_where_the_reference_fails_the_words_are_its_own():
    failed = Game("exact, the reference", "w", np.empty(0), "OSError: x")
    table = _paired(Game("mine", "w", np.ones(2)), failed)
    assert table["words"].tolist() == ["exact, the reference: OSError: x"]
