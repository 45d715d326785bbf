import math

import pytest

from bandit_gym.results.cells import interval_notes, write_estimate, write_p_value, write_share


def test_share_that_is_not_zero_is_not_told_as_zero():
    assert [write_share(share) for share in (0.0, 0.001, 0.166, 1.0)] == [
        "0 %",
        "under 1 %",
        "17 %",
        "100 %",
    ]


@pytest.mark.parametrize("is_doubtful", [True, False])
def test_an_interval_that_may_be_too_short_has_a_star_and_a_note(is_doubtful):
    row = {
        "replications": 20,
        "difference": 3.0,
        "difference_low": 2.0,
        "difference_high": 5.0,
        "difference_is_doubtful": is_doubtful,
    }
    star = "*" if is_doubtful else ""
    assert write_estimate(row, "difference") == f"3.0 [2.0, 5.0]{star}"
    notes = list(interval_notes([row], ["difference"]))
    assert len(notes) == is_doubtful
    assert all("fewer than 100 replications: the interval may be too short" in n for n in notes)


@pytest.mark.parametrize(
    ("interval", "written"),
    [
        ((2.0, 1.5, 2.5), "2.0 ± 0.5"),
        ((2.0, 1.5, 2.54), "2.0 ± 0.5"),  # lopsided by 0.04, which one digit does not show
        ((2.0, 1.5, 2.56), "2.0 [1.5, 2.6]"),
        ((2.0, 1.0, 4.0), "2.0 [1.0, 4.0]"),
        ((2.0, math.nan, math.nan), "2.0 ± -"),
        ((math.nan, math.nan, math.nan), "-"),
    ],
)
def test_an_estimate_is_written_with_its_interval(interval, written):
    row = dict(zip(("x", "x_low", "x_high"), interval, strict=True))
    assert write_estimate(row, "x") == written


def test_an_estimate_is_written_with_as_many_digits_as_asked_for():
    row = {"x": 0.5, "x_low": 0.25, "x_high": 0.7502}
    assert write_estimate(row, "x", digits=3) == "0.500 ± 0.250"
    assert write_estimate(row, "x", digits=4) == "0.5000 [0.2500, 0.7502]"


@pytest.mark.parametrize(
    ("value", "written"), [(0.0009, "<0.001"), (0.001, "0.001"), (0.25, "0.250"), (math.nan, "-")]
)
def test_a_p_value_is_written_to_three_digits(value, written):
    assert write_p_value(value) == written
