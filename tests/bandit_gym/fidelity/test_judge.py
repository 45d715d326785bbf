import numpy as np
import pytest
from numpy.random import SeedSequence

from bandit_gym.fidelity import judge as judging
from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.judge import FLAGGED, REFUSED, RIGHT, WRONG, Decisions, judge
from bandit_gym.fidelity.priors import DensityOnly
from bandit_gym.fidelity.settings import SETTINGS, Setting
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta

CASE = Case("easy", "it is not", Bernoulli(), Beta(1.0, 1.0), (5, 3), (4, 1))
HIDDEN = Case("hidden", "", Bernoulli(), DensityOnly(Beta(1.0, 1.0)), (5, 3), (4, 1))
EXACT = Setting("exact", "exact", num_decisions=4000)


@pytest.fixture
def decided(monkeypatch):
    """Judge 1000 decisions with given shares of wrong and of flagged ones; wrong ones come first.

    Decisions that are not wrong have the law of the truth itself.
    """

    def judge_these(is_wrong, is_flagged, num_draws=1000):
        laws = np.where(np.array(is_wrong)[:, None], [0.0, 1.0], CASE.law)
        made = Decisions(laws, np.array(is_flagged))
        monkeypatch.setattr(judging, "decide", lambda *_: made)
        return judge(Setting("some", "exact", num_draws=num_draws), CASE)

    return judge_these


FIRST = np.arange(1000) < 300
NONE, ALL = np.zeros(1000, dtype=bool), np.ones(1000, dtype=bool)


def test_exact_thompson_sampling_is_right():
    found = judge(EXACT, CASE)
    assert found.verdict == RIGHT
    assert found.decisions == 4000
    assert found.flagged == 0.0


def test_the_wrong_prior_is_wrong_by_its_distance():
    setting = Setting("reference", "exact", {"prior": "reference"}, num_decisions=4000)
    case = Case("sure", "", Bernoulli(), Beta(50.0, 50.0), (5, 3), (4, 1))
    found = judge(setting, case)
    assert found.verdict == WRONG
    expected = np.abs(CASE.law - case.law).sum() / 2
    # The frequency of one of two arms, and its noise floor, which is at most a deviation.
    assert abs(found.excess - expected) <= 5 * np.sqrt(0.25 / 4000)


def test_far_decisions_in_silence_are_wrong(decided):
    assert decided(FIRST, NONE).verdict == WRONG


def test_far_decisions_are_flagged_if_those_in_silence_are_right(decided):
    found = decided(FIRST, FIRST)
    assert found.verdict == FLAGGED
    assert found.flagged == 0.3


def test_far_decisions_are_flagged_if_nine_in_ten_are(decided):
    is_flagged = np.arange(1000) >= 100  # the silent ones are all wrong
    assert decided(FIRST, is_flagged).verdict == FLAGGED
    is_flagged = np.arange(1000) >= 101
    assert decided(FIRST, is_flagged).verdict == WRONG


def test_right_decisions_are_right_though_flagged(decided):
    found = decided(NONE, ALL)
    assert found.verdict == RIGHT
    assert np.isnan(found.silent_excess)


def test_runs_that_are_wrong_by_turns_are_wrong_though_their_average_is_right(monkeypatch):
    laws = np.eye(2)[(np.arange(1000) >= 1000 * CASE.law[0]).astype(int)]
    made = Decisions(laws, NONE)
    monkeypatch.setattr(judging, "decide", lambda *_: made)
    assert judge(EXACT, CASE).verdict == RIGHT
    assert judge(Setting("runs", "smc", num_draws=1000), CASE).verdict == WRONG


def test_a_sentence_that_names_an_agent_which_can_is_a_refusal():
    found = judge(EXACT, HIDDEN)
    assert found.verdict == REFUSED
    assert "RacingThompson and SMCThompson take any prior" in found.words


@pytest.mark.parametrize(
    "error",
    [
        ValueError("prior must be another, got this one."),
        ValueError("prior must be another; use ExactThompson."),  # it is that one
        ValueError("prior must be another;\nuse SMCThompson."),
        IndexError("use SMCThompson."),
    ],
)
def test_other_errors_are_wrong(error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(judging, "decide", fail)
    assert judge(EXACT, CASE).verdict == WRONG


def test_decisions_are_the_same_when_made_again():
    first, again = (judging.decide(EXACT, CASE, 500, SeedSequence(3)) for _ in range(2))
    np.testing.assert_array_equal(first.laws, again.laws)


def test_lanes_that_keep_draws_give_their_own_laws():
    smc = next(setting for setting in SETTINGS if setting.num_draws)
    laws = judging.decide(smc, CASE, 60, SeedSequence(3)).laws
    assert len(np.unique(laws, axis=0)) > 10
    np.testing.assert_allclose(laws.sum(axis=1), 1.0)


def test_a_race_without_end_is_judged_by_few_decisions(monkeypatch):
    monkeypatch.setattr(judging, "MOST_MEANS", 100)
    racing = Setting(
        "racing", "racing", {"proposal": "reference", "stopping": 20}, num_decisions=20_000
    )
    assert len(judging.decide(racing, CASE, 20_000, SeedSequence(0)).laws) == judging.FIRST_LANES
