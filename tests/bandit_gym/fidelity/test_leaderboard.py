import numpy as np
import pandas as pd

from bandit_gym.fidelity.leaderboard import (
    MOST_MARKS,
    describe_leaderboard,
    draw_leaderboard,
    make_leaderboard,
)


def distances(agent, *excesses, status="measured"):
    return pd.DataFrame(
        {
            "agent": agent,
            "case": [f"case {i}" for i in range(len(excesses))],
            "status": status,
            "excess": excesses,
            "std": 0.01,
            "high": np.array(excesses) + 0.0196,
            "flagged": 0.0,
            "num_samples": np.nan,
            "microseconds": 10.0,
        }
    )


REGRETS = pd.DataFrame(
    {
        "agent": "a",
        "world": ["w", "v"] * 10,
        "replication": np.repeat(np.arange(10), 2),
        "regret": [12.0, 14.0] * 10,
        "exact_regret": [10.0, 10.0] * 10,
        "words": "",
    }
)


def test_mean_excess_and_its_interval_by_hand():
    board = make_leaderboard(distances("a", 0.0, 0.2), REGRETS)
    row = board.iloc[0]
    half = 1.96 * 0.01 * 2**0.5 / 2  # of the mean of two
    np.testing.assert_allclose(row["excess_low"], 0.1 - half)
    np.testing.assert_allclose(row["excess_high"], 0.1 + half, rtol=1e-6)
    assert (row["worst"], row["worst_case"]) == (0.2, "case 1")
    assert row["lost"] == 3.0


def test_regret_lost_says_over_how_many_problems_it_is():
    regrets = REGRETS.assign(words=np.where(REGRETS["world"] == "v", "it failed", ""))
    board = make_leaderboard(distances("a", 0.0), regrets)
    assert board.iloc[0][["lost", "games", "of_games"]].tolist() == [2.0, 1, 2]
    assert "2.0 [2.0, 2.0] of 1 of 2 problems" in describe_leaderboard(board)
    assert "problems" not in describe_leaderboard(make_leaderboard(distances("a", 0.0), REGRETS))


def test_those_who_decide_more_often_come_first_then_the_nearest():
    tables = [
        distances("few", 0.0).assign(case="case 0"),
        distances("far", 0.3, 0.1),
        distances("near", 0.1, 0.1),
        distances("none", np.nan, status="failed"),
    ]
    board = make_leaderboard(pd.concat(tables), REGRETS[:0])
    assert board["agent"].tolist() == ["near", "far", "few", "none"]
    assert "0 of 1" in describe_leaderboard(board)


def test_where_nobody_decided_there_is_a_board_and_a_picture_all_the_same():
    board = make_leaderboard(distances("none", np.nan, status="failed"), REGRETS[:0])
    assert board["microseconds"].isna().all()
    assert "0 of 1" in describe_leaderboard(board)
    draw_leaderboard(board)


def test_picture_has_seven_labelled_marks_at_most():
    tables = pd.concat([distances(f"agent {i}", 0.01 * i) for i in range(9)])
    axes = draw_leaderboard(make_leaderboard(tables, REGRETS[:0])).axes[0]
    assert [text.get_text() for text in axes.texts] == [f"agent {i}" for i in range(MOST_MARKS)]
