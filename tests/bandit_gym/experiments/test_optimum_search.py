import json
import sys

import pytest

from bandit_gym.experiments import optimum_search
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.optimum import Optimum, read_optimum
from bandit_gym.experiments.optimum_search import find_optima, find_optimum

TWO = {"env": "BernoulliBandit-v0", "num_arms": 2}
LEAST = 0.9021
"""Of two uniform arms and 20 pulls: section 6.9 of the design, an independent recursion."""


def run_in(world, horizon=20):
    return Experiment([world], ["random"], replications=1, horizon=horizon).runs[0]


@pytest.fixture
def carry_out(tmp_path):
    """Run two replications in worlds; return the store and the run of the first of them."""

    def carry_out(*worlds, **options):
        experiment = Experiment([*worlds], ["random"], replications=2, horizon=20, block_size=2)
        store = run_experiment(experiment, tmp_path, workers=Workers("serial"), **options)
        return store, experiment.runs[0]

    return carry_out


def test_least_regret_is_stored_beside_the_results(carry_out):
    found = read_optimum(*carry_out(TWO, optimal_budget=5.0))
    assert (found.kind, found.steps[-1], found.lower) == ("exact", 20, found.upper)
    assert found.lower[-1] == pytest.approx(LEAST, abs=5e-5)


def test_where_the_recursion_ends_it_is_bounded(carry_out):
    found = read_optimum(*carry_out({**TWO, "num_arms": 6}, optimal_budget=5.0))
    assert found.kind == "bracket"
    assert 0 < found.lower[-1] < found.upper[-1]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ({**TWO, "means": [0.2, 0.7]}, "worlds of this package that draw their means"),
        ({"env": "PoissonBandit-v0"}, "problem.likelihood must be Bernoulli"),
        ({"env": "DependentPriorBandit-v0", "num_arms": 2}, "prior must offer arm_log_density"),
        ({"env": "CartPole-v1"}, "worlds of this package"),
    ],
)
def test_in_other_worlds_there_is_a_reason_for_those_who_ask(world, words):
    for is_asked in (False, True):
        found = find_optimum(run_in(world), 5.0, is_asked)
        assert not found.is_known and words in found.reason
        assert found.describe() == (f"unknown; {found.reason}" if is_asked else "")


def test_what_would_take_too_long_is_not_begun_and_says_what_it_takes():
    found = find_optimum(run_in({**TWO, "num_arms": 10}, horizon=1000), 5.0, False)
    assert not found.is_known and 10 < found.seconds < 30
    assert found.describe() == "not computed; it would take some 15 s (--optimal-budget 15)."


@pytest.mark.parametrize(("few", "is_sought"), [(40, False), (39, True)])
def test_in_trials_nobody_looks_for_it_unless_asked_to(carry_out, monkeypatch, few, is_sought):
    """One agent, two replications of 20 steps: 40 decisions."""
    monkeypatch.setattr(optimum_search, "DEFAULT_BUDGET", 5.0)
    monkeypatch.setattr(optimum_search, "FEW_DECISIONS", few)
    assert (read_optimum(*carry_out(TWO)) is not None) == is_sought


def test_without_a_budget_nothing_is_sought_or_stored(carry_out):
    store, run = carry_out(TWO, optimal_budget=0.0)
    assert read_optimum(store, run) is None
    assert not (store.directory / "optimum").exists()


@pytest.mark.parametrize(
    ("stored", "seconds", "is_sought"),
    [
        (Optimum("exact", [20], [1.0], [1.0]), 9.0, False),
        (Optimum("bracket", [20], [1.0], [2.0]), 5.0, False),
        (Optimum("bracket", [20], [1.0], [2.0]), 9.0, True),
        (Optimum("none"), 5.0, False),
        (Optimum("none"), 9.0, True),
    ],
)
def test_it_is_sought_again_only_where_more_may_be_found(carry_out, stored, seconds, is_sought):
    store, run = carry_out(TWO)
    store.write_optimum(run, stored._replace(budget=5.0, is_asked=True)._asdict())
    sought = []
    experiment = Experiment([TWO], ["random"], replications=2, horizon=20, block_size=2)
    find_optima(
        store, experiment, seconds, lambda function, calls: iter(sought.extend(calls) or ())
    )
    assert bool(sought) == is_sought


@pytest.mark.parametrize("damage", ["torn", "altered", "of another horizon"])
def test_what_is_stored_counts_only_while_it_fits(carry_out, damage):
    store, run = carry_out(TWO, optimal_budget=5.0)
    (path,) = (store.directory / "optimum").iterdir()
    if damage == "of another horizon":
        run = run_in(TWO, horizon=21)
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-9] if damage == "torn" else data.replace(b'"exact"', b'"guess"'))
    assert read_optimum(store, run) is None


def test_of_another_results_version_it_is_found_again(carry_out, monkeypatch):
    store, run = carry_out(TWO, optimal_budget=5.0)
    manifest = json.loads((store.directory / "experiment.json").read_text())
    manifest["results_version"] += 1
    (store.directory / "experiment.json").write_text(json.dumps(manifest))
    assert read_optimum(type(store)(store.directory), run) is None


@pytest.mark.parametrize(
    ("budget", "error"), [(-1.0, ValueError), (float("nan"), ValueError), ("5", TypeError)]
)
def test_what_is_no_time_is_refused_in_one_sentence(carry_out, budget, error):
    with pytest.raises(error, match=r"optimal_budget must be .*, got"):
        carry_out(TWO, optimal_budget=budget)


def test_world_whose_code_fails_stops_no_run(monkeypatch):
    def fail(*arguments):
        sys.exit(3)

    monkeypatch.setattr("bandit_gym.experiments.optimum_search.load_optimal_line", lambda: fail)
    assert find_optimum(run_in(TWO), 5.0, True).describe() == "unknown; SystemExit: 3"
