import dataclasses

import pytest
from fixed_instance import ENV, FIXED

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.comparison import compare, describe_comparison
from bandit_gym.results.results import load_results
from bandit_gym.results.statistics import holm, paired_p_value

MINE = {"agent": "stub_agents:Constant", "label": "mine"}


@pytest.fixture
def play(tmp_path):
    def play(name, agents, worlds=(FIXED,), **settings):
        sizes = {"replications": 20, "horizon": 10} | settings
        run_experiment(
            Experiment(worlds, agents, **sizes), tmp_path / name, workers=Workers("serial")
        )
        return load_results(tmp_path / name)

    return play


def test_agents_of_the_same_label_are_paired_whatever_their_options(play):
    """Arm 0 loses 0.7 a step, arm 1 loses 0.4: 3 less after 10 steps."""
    first, second = play("a", [MINE, "random"]), play("b", ["random", {**MINE, "arm": 1}])
    comparison = compare(first, second)
    rows = comparison.rows.set_index("agent")
    assert rows.loc["mine", "difference"] == pytest.approx(-3.0)
    assert rows.loc["mine", "verdict"] == "better"
    assert rows.loc["random", "verdict"] == "same"
    assert comparison.is_different and comparison.is_tested and comparison.lost == 0


def test_worse_is_told_of_the_second(play):
    first, second = play("a", [{**MINE, "arm": 1}]), play("b", [MINE])
    comparison = compare(first, second)
    assert comparison.rows["verdict"].tolist() == ["worse"]
    assert "3.0 ± 0.0" in describe_comparison(comparison)


def test_only_common_replications_are_compared(play):
    comparison = compare(play("a", ["random"]), play("b", ["random"], replications=12))
    assert comparison.rows["replications"].tolist() == [12]
    assert comparison.rows["verdict"].tolist() == ["same"]
    assert not comparison.is_different


def test_chance_alone_is_undecided(play):
    """Two random agents on 20 common instances; with these seeds their regrets do not differ."""
    first = play("a", [{"agent": "epsilon_greedy", "epsilon": 1.0, "label": "mine"}], [ENV])
    second = play("b", [{"agent": "random", "label": "mine"}], [ENV])
    comparison = compare(first, second)
    assert comparison.rows["verdict"].tolist() == ["undecided"]
    assert not comparison.is_different


def test_p_values_are_corrected_for_all_pairs(play):
    worlds = [{"env": ENV, "num_arms": num_arms} for num_arms in (2, 3, 5)]
    first = play("a", [{"agent": "epsilon_greedy", "epsilon": 0.5, "label": "mine"}], worlds)
    second = play("b", [{"agent": "random", "label": "mine"}], worlds)
    raw = [
        paired_p_value(other.final("pseudo_regret") - found.final("pseudo_regret"))
        for found, other in zip(first.runs, second.runs, strict=True)
    ]
    corrected = compare(first, second).rows["p_holm"].tolist()
    assert corrected == holm(raw).tolist() != raw


def test_below_ten_replications_nothing_is_tested(play):
    first = play("a", [MINE], replications=9)
    comparison = compare(first, play("b", [{**MINE, "arm": 1}], replications=9))
    assert comparison.rows["verdict"].tolist() == ["untested"]
    assert not comparison.is_tested and not comparison.is_different


def test_runs_without_a_partner_are_named(play):
    comparison = compare(play("a", [MINE, "ucb1"]), play("b", [MINE, "random"]))
    text = describe_comparison(comparison)
    assert "Not compared: ucb1 in BernoulliBandit-v0" in text and ": only in the first." in text
    assert "Not compared: random in BernoulliBandit-v0" in text and ": only in the second." in text
    assert comparison.lost == 1 and comparison.is_different


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"seed": 1}, "seed 0 in the first, 1 in the second"),
        ({"horizon": 11}, "horizon 10 in the first, 11 in the second"),
        ({"worlds": [{**FIXED, "num_arms": 3, "means": [0.1, 0.5, 0.9]}]}, "only in the first"),
    ],
)
def test_what_played_something_else_is_not_paired(play, settings, reason):
    with pytest.raises(ValueError, match=f"must have a run in common, .*; mine in .*: {reason}"):
        compare(play("a", [MINE]), play("b", [MINE], **settings))


def test_results_of_two_versions_are_not_paired(play):
    first = play("a", [MINE])
    with pytest.raises(ValueError, match="results version"):
        compare(first, dataclasses.replace(first, version=first.version - 1))


def test_worlds_of_other_code_are_not_paired(play):
    first = play("a", [MINE])
    (run,) = first.runs
    blocks = tuple(
        dataclasses.replace(b, receipt=b.receipt | {"sources": {"environment": {"a.py": "1"}}})
        for b in run.blocks
    )
    other = dataclasses.replace(first, runs=(dataclasses.replace(run, blocks=blocks),))
    with pytest.raises(ValueError, match="the world's code differs"):
        compare(first, other)


def test_what_failed_in_the_second_is_lost(play):
    first = play("a", [MINE, "random"])
    mine, random = first.runs
    failed = dataclasses.replace(first, runs=(mine, dataclasses.replace(random, failures={0: "x"})))
    comparison = compare(first, failed)
    assert comparison.unmatched[0].endswith("failed in the second.")
    assert comparison.is_different
