import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from bandit_gym.experiments.entries import content_digest
from bandit_gym.experiments.experiment import (
    FORMAT,
    NUM_LOG_STEPS,
    Experiment,
    load_experiment,
    recorded_steps,
)

ENV = "BernoulliBandit-v0"
LARGE = {"agent": "racing", "grid": {"delta": [0.1] * 300, "sigma": [0.1] * 300}}
HUGE = {"agent": "racing", "grid": {name: [0.1] * 1000 for name in ("delta", "sigma", "scale")}}
PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"


def make_experiment(**changes):
    return Experiment(**{"environments": [ENV], "agents": ["random", "ucb1"], **changes})


def test_experiment_has_one_run_per_environment_and_agent():
    runs = make_experiment(environments=[ENV, "PoissonBandit-v0"]).runs
    assert [(run.environment.label, run.agent.label) for run in runs] == [
        (ENV, "random"),
        (ENV, "ucb1"),
        ("PoissonBandit-v0", "random"),
        ("PoissonBandit-v0", "ucb1"),
    ]


def test_runs_without_propensities_are_named_as_before_there_were_any():
    run, other = (make_experiment(propensities=wanted).runs[0] for wanted in (False, True))
    settings = {"environment": run.environment.settings, "agent": run.agent.settings}
    settings |= {name: getattr(run, name) for name in ("horizon", "seed", "recording")}
    settings |= {"format": FORMAT, "block_size": run.block_size}
    assert run.digest == content_digest(settings)
    assert other.digest == content_digest(settings | {"propensities": True})


def test_experiment_survives_a_round_trip_through_json():
    experiment = make_experiment(
        agents=["random", {"agent": "ucb1", "scale": 0.5, "label": "half"}],
        environments=[{"env": ENV, "prior": {"name": "beta", "alpha": 5, "beta": 5}}],
        recording="every",
    )
    assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment


def test_grid_stands_for_its_product_with_the_last_key_varying_fastest():
    grid = {"delta": [0.1, 0.2], "sigma": [0.3, 0.4]}
    agents = make_experiment(agents=[{"agent": "racing", "grid": grid, "max_samples": 9}]).agents
    assert [(agent.options["delta"], agent.options["sigma"]) for agent in agents] == [
        (0.1, 0.3),
        (0.1, 0.4),
        (0.2, 0.3),
        (0.2, 0.4),
    ]
    assert agents[0].label == "racing(max_samples=9,delta=0.1,sigma=0.3)"


@pytest.mark.parametrize("label", ["$x_{$", "_x", "[/x]", "<b>", "=1+1", "é", "a" * 200])
def test_labels_of_any_visible_characters_are_taken_as_they_are(label):
    (agent,) = make_experiment(agents=[{"agent": "random", "label": label}]).agents
    assert agent.label == label


def test_settings_that_read_very_long_are_cut_in_the_label():
    means = [0.5] * 100
    (world,) = make_experiment(
        environments=[{"env": ENV, "num_arms": 100, "means": means}]
    ).environments
    assert len(world.label) == 200
    assert world.label.endswith("...")


def test_label_of_a_prior_reads_as_the_call_that_makes_it():
    prior = {"name": "beta", "alpha": 5, "beta": 5}
    environments = make_experiment(environments=[{"env": ENV, "prior": prior}]).environments
    assert environments[0].label == f"{ENV}(prior=beta(alpha=5,beta=5))"


def test_name_of_an_experiment_is_that_of_an_equal_one():
    longhand = make_experiment(
        environments=[{"env": f"bandit_gym:{ENV}"}], agents=["agents:UniformRandom", "ucb1"]
    )
    assert longhand.name == make_experiment().name


@pytest.mark.parametrize(
    "change",
    [
        {"environments": [{"env": ENV, "num_arms": 3}]},
        {"agents": ["random", {"agent": "ucb1", "scale": 0.5}]},
        {"horizon": 7},
        {"seed": 1},
        {"recording": "every"},
        {"block_size": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_name_changes_with_whatever_can_change_a_result(change):
    assert make_experiment(**change).name != make_experiment().name


def test_name_stays_when_replications_are_added():
    assert make_experiment(replications=200).name == make_experiment().name


def test_a_label_changes_neither_name_nor_stream():
    environment, agent = {"env": ENV, "label": "world"}, {"agent": "random", "label": "dice"}
    (plain,) = make_experiment(agents=["random"]).runs
    (labelled,) = make_experiment(environments=[environment], agents=[agent]).runs
    assert labelled.name == plain.name
    assert labelled.agent_seed(0).spawn_key == plain.agent_seed(0).spawn_key


def test_agents_of_the_same_settings_are_refused_whatever_their_labels():
    with pytest.raises(ValueError, match="the same ones as 'random' and as 'dice'; remove one"):
        make_experiment(agents=["random", {"agent": "random", "label": "dice"}])


def test_environment_seeds_are_the_same_for_every_agent_and_block_size():
    first, second = make_experiment().runs
    (halves, _) = make_experiment(block_size=25).runs
    assert first.environment_seeds(0) == second.environment_seeds(0)
    assert first.environment_seeds(0) == halves.environment_seeds(0) + halves.environment_seeds(1)


def test_agent_seeds_differ_between_agents_worlds_blocks_and_environments_own_streams():
    runs = make_experiment(environments=[ENV, {"env": ENV, "num_arms": 3}]).runs
    keys = [run.agent_seed(block).spawn_key for run in runs for block in (0, 1)]
    assert len(set(keys)) == 8
    assert all(key[0] == 1 for key in keys)  # replications have keys that begin with 0


def test_experiment_file_is_read_from_toml(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(
        f"""
        replications = 7
        agents = ["random"]
        [[environments]]
        env = "{ENV}"
        num_arms = 3
        """
    )
    assert load_experiment(path) == make_experiment(
        environments=[{"env": ENV, "num_arms": 3}], agents=["random"], replications=7
    )


def test_experiment_file_is_read_from_json(tmp_path):
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(make_experiment().to_dict()))
    assert load_experiment(path) == make_experiment()


def test_experiment_file_that_is_no_toml_is_refused(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text("replications = = 7")
    with pytest.raises(ValueError, match="path must lead to valid TOML, got .*experiment.toml"):
        load_experiment(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("deep.json", '{"agents": ' + "[" * 100_000, "nested less deeply"),
        ("deep.toml", "agents = " + "[" * 100_000, "must lead to valid TOML"),
        ("twice.json", '{"seed": 1, "seed": 2}', "each key once, got 'seed' twice"),
        ("twice.toml", "seed = 1\nseed = 2", "must lead to valid TOML"),
        ("null.json", "null", "experiment must be a dict"),
        ("list.json", "[]", "experiment must be a dict"),
        (
            "five.json",
            '{"environments": [5], "agents": ["random"]}',
            "env must be a name or a dict",
        ),
    ],
)
def test_experiment_file_that_holds_no_experiment_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        load_experiment(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [10**15, 2**62])
def test_an_experiment_of_any_size_can_be_described(size):
    experiment = make_experiment(replications=size)
    assert experiment.num_blocks == -(-size // 50)
    assert experiment.name == make_experiment().name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replications": 10**400}, "replications must be at most 4611686018427387904, got 1000"),
        ({"environments": ["BernouliBandit-v0"]}, "nearest known one is 'BernoulliBandit-v0'"),
        ({"environments": [{"env": ENV, "num_arm": 3}]}, "nearest known one is 'num_arms'"),
        ({"environments": ["no_such_module:Bandit-v0"]}, "env must be"),
        ({"environments": []}, "environments must have at least one entry"),
        ({"agents": ["racin"]}, "nearest known one is 'racing'"),
        ({"agents": [{"agent": "racing", "detla": 0.1}]}, "nearest known one is 'delta'"),
        ({"agents": ["agents:NoSuchAgent"]}, "agent must be an importable class"),
        ({"agents": ["random", "random"]}, "agents must have different labels, got 'random'"),
        ({"agents": [{"agent": "random", "label": "\ud800"}]}, "label must have 1 to 200 char"),
        ({"agents": [{"agent": "random", "label": "a\nb"}]}, "none of them for control"),
        ({"agents": [{"agent": "random", "label": "\x1b[31m"}]}, "none of them for control"),
        ({"agents": [{"agent": "random", "label": "\u202elive"}]}, "none of them for control"),
        ({"agents": [{"agent": "random", "label": "a" * 201}]}, "label must have 1 to 200 char"),
        ({"agents": [{"agent": "random", "label": ""}]}, "label must have 1 to 200 char"),
        ({"agents": [LARGE]}, "grid of agent must have at most 10000 points, got 90000"),
        ({"agents": [HUGE]}, "at most 10000 points, got 1000000000"),
        ({"agents": [{"agent": "ucb1", "grid": {"label": ["a"]}}]}, "got the key 'label'"),
        ({"agents": [{"agent": "ucb1", "grid": {"grid": ["a"]}}]}, "got the key 'grid'"),
        ({"replications": 0}, "replications must be a positive integer, got 0"),
        ({"horizon": -1}, "horizon must be a positive integer, got -1"),
        ({"seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"block_size": 0}, "block_size must be a positive integer, got 0"),
        ({"recording": "each"}, "recording must be one of 'log', 'every', got 'each'"),
    ],
)
def test_experiment_refuses_bad_values_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        make_experiment(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": "random"}, "agents must be a list"),
        ({"agents": [{"agent": "random", "label": 5}]}, "label must be a string, got 5"),
        ({"agents": [{"agent": "random", "label": ["a"]}]}, "label must be a string"),
        ({"agents": [{"delta": 0.1}]}, "agent must be a name or a dict with the key 'agent'"),
        ({"agents": [{"agent": "racing", "grid": {"delta": 0.1}}]}, "grid of agent must be"),
        ({"agents": [{"agent": "racing", "delta": float("nan")}]}, "must be JSON-able"),
        ({"replications": 1.5}, "replications must be a positive integer, got 1.5"),
    ],
)
def test_experiment_refuses_wrong_kinds_by_name(changes, message):
    with pytest.raises(TypeError, match=message):
        make_experiment(**changes)


def test_experiment_names_the_nearest_known_key():
    settings = {"environments": [ENV], "agents": ["random"], "replicatons": 3}
    with pytest.raises(ValueError, match="nearest known one is 'replications'"):
        Experiment.from_dict(settings)


def test_experiment_of_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "experiment.toml").write_text(text, encoding="utf-8")
    runs = load_experiment(tmp_path / "experiment.toml").runs
    assert len(runs) == 2 * 3
    assert runs[1].agent.label == "Racing(delta=0.01)"


def test_every_step_is_recorded_when_asked_for():
    assert recorded_steps(5, "every").tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 10**6])
def test_log_schedule_is_short_and_ends_at_the_horizon(horizon):
    steps = recorded_steps(horizon, "log")
    assert len(steps) <= NUM_LOG_STEPS
    assert steps[0] == 1
    assert steps[-1] == horizon
    assert (np.diff(steps) > 0).all()


def test_environment_seeds_differ_between_replications_and_have_63_bits():
    seeds = [s for block in range(4) for s in make_experiment().runs[0].environment_seeds(block)]
    assert len(set(seeds)) == len(seeds) == 200
    assert 2**62 < max(seeds) < 2**63  # misses with probability 2^-200
    assert make_experiment(seed=1).runs[0].environment_seeds(0) != seeds[:50]


def test_blocks_hold_all_replications_and_no_more_than_that():
    assert [make_experiment(replications=n).num_blocks for n in (1, 50, 51, 100)] == [1, 1, 2, 2]
    run = make_experiment(block_size=7).runs[0]
    assert [list(run.replications(block)) for block in (0, 1)] == [
        list(range(7)),
        list(range(7, 14)),
    ]


def test_runs_are_named_for_people_and_by_their_content():
    settings = {"agent": "racing", "proposal": "matched", "stopping": "self-normalised"}
    run = make_experiment(agents=[settings]).runs[0]
    environment, agent, digest = run.name.split("--")
    assert environment == ENV
    assert agent == "racing-proposal-matched-stopping-self-normalised"[:48]
    assert digest == run.digest[:12]
    assert len(run.digest) == 64


def test_experiments_are_named_by_twelve_digits():
    assert re.fullmatch("[0-9a-f]{12}", make_experiment().name)


def test_runs_of_equal_content_hash_alike():
    first, second = make_experiment().runs
    assert hash(first) == hash(make_experiment().runs[0]) != hash(second)


@pytest.mark.parametrize("name", ["replications", "horizon", "block_size"])
def test_one_is_the_least_of_each_number(name):
    assert getattr(make_experiment(**{name: 1}), name) == 1


def test_zero_is_the_least_seed():
    assert make_experiment(seed=0).seed == 0


def test_seeds_have_up_to_128_bits():
    assert make_experiment(seed=2**128 - 1).seed == 2**128 - 1
    with pytest.raises(ValueError, match=f"seed must be at most {2**128 - 1}, got {2**128}"):
        make_experiment(seed=2**128)


@pytest.mark.parametrize("horizon", [1000, 10**6])
def test_log_schedule_is_evenly_spaced_in_log_time(horizon):
    """Each step is T^(1 / 199) times the one before, but for two roundings; at first, one more."""
    steps, ratio = recorded_steps(horizon, "log"), horizon ** (1 / (NUM_LOG_STEPS - 1))
    rounding = 0.5 + 0.5 * ratio
    assert (abs(steps[1:] - ratio * steps[:-1]) <= rounding).all()


def test_a_pipe_into_which_nobody_writes_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("bandit_gym.files.PATIENCE", 0.1)
    with pytest.raises(OSError, match="a pipe into which nobody writes"):
        load_experiment(tmp_path / "pipe")


def test_a_pipe_into_which_somebody_writes_is_read():
    reading, writing = os.pipe()
    os.write(writing, b'environments = ["BernoulliBandit-v0"]\nagents = ["random"]\n')
    os.close(writing)
    assert load_experiment(f"/dev/fd/{reading}").agents[0].label == "random"
    os.close(reading)


def test_numbers_of_numpy_become_pythons_own():
    experiment = make_experiment(
        replications=np.int64(3), environments=[{"env": ENV, "num_arms": np.int32(4)}]
    )
    numbers = experiment.replications, experiment.environments[0].options["num_arms"]
    assert [type(number) for number in numbers] == [int, int]


def test_blocks_that_no_memory_holds_are_refused():
    with pytest.raises(ValueError, match="block_size, horizon and recording must be such that"):
        make_experiment(horizon=10**15, recording="every")
    assert make_experiment(horizon=10**15).num_blocks


def test_blocks_have_up_to_twenty_million_rows():
    every = {"block_size": 100_000, "recording": "every"}
    assert make_experiment(**every, horizon=200).horizon == 200
    with pytest.raises(ValueError, match="recorded steps is at most 20000000, got"):
        make_experiment(**every, horizon=201)
