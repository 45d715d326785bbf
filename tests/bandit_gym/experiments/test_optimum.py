import json

import pytest

from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.optimum import Optimum, read_optimum
from bandit_gym.experiments.storage import Store

SOUND = Optimum("exact", [5, 10], [0.5, 0.75], [0.5, 0.75])


@pytest.fixture
def place(tmp_path):
    """A store, and the only run of its experiment."""
    experiment = Experiment([{"env": "BernoulliBandit-v0"}], ["random"], horizon=10)
    with Store.claimed(tmp_path, experiment) as (store, _):
        yield store, experiment.runs[0]


def test_what_is_written_is_read(place):
    store, run = place
    store.write_optimum(run, SOUND._asdict())
    assert read_optimum(store, run) == SOUND


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "guess"},
        {"kind": "none"},
        {"steps": []},
        {"steps": [10, 5]},
        {"steps": [0, 10]},
        {"lower": [0.5]},
        {"lower": "low"},
        {"lower": None},
        {"lower": [0.5, 10**400]},
        {"upper": [0.5, float("nan")]},
        {"upper": [0.5, [0.75]]},
        {"reason": "\x1b[31mred"},
        {"reason": 3},
        {"seconds": "long"},
        {"budget": float("inf")},
    ],
    ids=json.dumps,
)
def test_what_is_not_sound_is_not_shown(place, change):
    store, run = place
    store.write_optimum(run, SOUND._asdict() | change)
    assert read_optimum(store, run) is None


def test_what_lacks_a_part_is_not_shown(place):
    store, run = place
    store.write_optimum(run, {"kind": "exact"})
    assert read_optimum(store, run) is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (SOUND, "0.75, of the Bayes-optimal policy."),
        (Optimum("bracket", [10], [-1.0], [2.0]), "between 0.0 and 2.0, with 95 % confidence."),
        (
            Optimum("none", seconds=4.2),
            "not computed; it would take some 5 s (--optimal-budget 5).",
        ),
        (Optimum("none", reason="why"), ""),
        (Optimum("none", reason="why", is_asked=True), "unknown; why"),
    ],
)
def test_it_says_what_is_known(found, text):
    assert found.describe() == text
