"""What an experiment is: settings that can be written and read, their names, and their streams."""

import json
import re
import tomllib

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest
from fixed_instance import ENV, FIXED
from numpy.random import SeedSequence
from refusals import check_refusals
from surface import CUMULATIVE_REGRET, SERIAL, failures_of, files_of, metadata_of, timings_of

from bandit_gym import load_results, run_experiment
from bandit_gym.doubts import Doubt
from bandit_gym.experiments import Experiment, load_experiment
from bandit_gym.experiments.experiment import make_agent_and_environment

FIVE = {"name": "beta", "alpha": 5, "beta": 5}
HARD = 'a "b" \\ # é ] אב 𝄞'


def make_experiment(**changes):
    return Experiment(**{"environments": [ENV], "agents": ["random", "ucb1"], **changes})


# -- Written and read ---------------------------------------------------------------------------

ENTRIES = {
    "a name": ('agents = ["exact"]', ["exact"]),
    "a class": ('agents = ["agents:UCB1", "stub_agents:Constant"]', ["ucb1", "Constant"]),
    "options and a label": (f"[[agents]]\nagent='racing_paper'\ndelta=0.5\nlabel='{HARD}'", [HARD]),
    "a grid": (
        "[[agents]]\nagent = 'racing_paper'\nmax_samples = 9\ngrid.delta = [0.1, 0.2]\n"
        "grid.sigma = [0.3, 1]",
        [f"racing_paper(max_samples=9,delta={d},sigma={s})" for d in (0.1, 0.2) for s in (0.3, 1)],
    ),
    "a grid with a label": (
        "[[agents]]\nagent = 'ucb1'\nlabel = 'mine'\ngrid.scale = [0.5, 1.0]",
        ["mine(scale=0.5)", "mine(scale=1.0)"],
    ),
    "a prior that is told": (
        "[[agents]]\nagent = 'exact'\nprior = {name = 'beta', alpha = 5, beta = 5}",
        ["exact, given beta(5, 5)"],
    ),
    "a prior that is a word": (
        "[[agents]]\nagent = 'racing'\nprior = 'reference'",
        ["racing(prior=reference)"],
    ),
    "an environment with a prior": (
        f"[[environments]]\nenv = '{ENV}'\nnum_arms = 3\nprior.name = 'beta'\nprior.alpha = 5\n"
        "prior.beta = 5",
        [f"{ENV}(num_arms=3,prior=beta(alpha=5,beta=5))"],
    ),
    "an environment in wrappers": (
        f"[[environments]]\nenv = '{ENV}'\n[[environments.wrappers]]\nname = 'DelayedReward'\n"
        "delay = 3\n[[environments.wrappers]]\nname = 'Drift'\nstd = 0.1",
        [f'{ENV}(wrappers=[{{"name":"DelayedReward","delay":3}},{{"name":"Drift","std":0.1}}])'],
    ),
    "another environment": ('environments = ["CartPole-v1"]', ["CartPole-v1"]),
}


def test_every_form_of_entry_reads_the_same_again(tmp_path):
    toml, as_json = tmp_path / "settings.toml", tmp_path / "settings.json"
    numbers = {"replications": 7, "horizon": [5, 9], "seed": 3, "block_size": 2}
    numbers |= {"recording": "every", "propensities": True}
    lines = [f"{name} = {json.dumps(value)}" for name, value in numbers.items()]
    expected = numbers | {"horizon": (5, 9)}
    kinds = {"environments": f'environments = ["{ENV}"]', "agents": 'agents = ["random", "ucb1"]'}
    for case, (text, labels) in ENTRIES.items():
        kind = next(kind for kind in kinds if kind in text)
        others = [line for other, line in kinds.items() if other != kind]
        toml.write_text("\n".join([*lines, *others, text]), encoding="utf-8")
        experiment = load_experiment(toml)
        assert [entry.label for entry in getattr(experiment, kind)] == labels, case
        assert {name: getattr(experiment, name) for name in numbers} == expected
        given = make_experiment(**tomllib.loads(toml.read_text("utf-8")))
        toml.write_text(toml.read_text("utf-8"), encoding="utf-8-sig")  # as Windows saves it
        assert load_experiment(toml) == experiment, case
        as_json.write_text(json.dumps(experiment.to_dict()))
        for each in (given, Experiment.from_dict(experiment.to_dict()), load_experiment(as_json)):
            assert each == experiment, case
        entries = {kind: getattr(experiment, kind) for kind in kinds}
        again = make_experiment(**{kind: list(values) for kind, values in entries.items()})
        assert {kind: getattr(again, kind) for kind in kinds} == entries, case


def test_numbers_of_numpy_are_pythons_and_prefixes_of_our_ids_may_be_left_out():
    given = {"environments": [f"bandit_gym:{ENV}"], "replications": np.int64(7)}
    agents = [{"agent": "racing_paper", "delta": delta} for delta in (np.float64(0.5), 0.5)]
    plain = make_experiment(replications=7, agents=agents[1:])
    assert make_experiment(**given, agents=agents[:1]) == plain


def test_horizons_may_be_any_sequence_of_integers():
    for given in ([10, 20], (10, 20), range(10, 30, 10), np.array([10, 20])):
        assert make_experiment(horizon=given).horizons == (10, 20)
    assert make_experiment(horizon=np.int64(10)).horizons == (10,)


def test_settings_that_read_very_long_are_cut_in_the_label_and_differ_in_name():
    means = ([0.5] * 99 + [last] for last in (0.5, 0.6))
    settings = [{"env": ENV, "num_arms": 100, "means": each} for each in means]
    first, second = (make_experiment(environments=[each]).environments[0] for each in settings)
    assert len(first.label) == 200 and first.label.endswith("...") and first.name != second.name


# -- Names --------------------------------------------------------------------------------------


def test_names_come_from_settings_alone():
    """Neither from labels nor from replications, nor from how the settings are written."""
    plain = make_experiment()
    world = {"env": f"bandit_gym:{ENV}", "label": "world"}
    agents = [{"agent": "agents:UniformRandom", "label": "dice"}, "ucb1"]
    same = make_experiment(environments=[world], agents=agents, replications=2**62)
    assert same.name == plain.name
    assert [run.name for run in same.runs] == [run.name for run in plain.runs]
    turned = make_experiment(environments=[dict(reversed(FIXED.items()))])
    assert turned.runs[0].name == make_experiment(environments=[FIXED]).runs[0].name
    assert re.fullmatch("[0-9a-f]{12}", plain.name)
    assert re.fullmatch(rf"{ENV}--random--[0-9a-f]{{12}}", plain.runs[0].name)


CHANGES = [
    {"environments": [{"env": ENV, "num_arms": 3}]},
    {"agents": ["random", {"agent": "ucb1", "scale": 0.5}]},
    {"agents": ["random", {"agent": "ucb1", "prior": FIVE}]},
    {"horizon": 7},
    {"horizon": [7, 1000]},
    {"seed": 1},
    {"recording": "every"},
    {"block_size": 7},
    {"propensities": True},
    {"propensities": "decide"},
    {"values": [1.0] * 10},
    {"floor": 0.05},
]


def test_names_change_with_whatever_can_change_a_result():
    names = [make_experiment(**change).name for change in ({}, *CHANGES)]
    assert len({*names}) == len(names), names


# -- Streams ------------------------------------------------------------------------------------


def play(folder, **settings):
    """Run an experiment and return its rows; after each step what uniform play would have lost."""
    sizes = {"replications": 6, "horizon": 8, "block_size": 3}
    run_experiment(Experiment(**sizes | settings), folder, workers=SERIAL)
    return load_results(folder).frame()


def worlds_met(frame):
    """Return agent -> (R,) what uniform play loses, which depends on the drawn means alone."""
    last = frame[frame["step"] == 8].astype({"agent": str})
    groups = last.groupby("agent")["uniform_regret"]
    return {agent: values.to_list() for agent, values in groups}


def test_every_agent_meets_the_same_means_whatever_else_is_asked_for(tmp_path):
    agents = ["random", "exact", {"agent": "stub_agents:Constant", "label": "constant"}]
    base = {"environments": [ENV], "agents": agents}
    found = worlds_met(play(tmp_path / "base", **base))
    first = found["random"]
    assert len(set(first)) == 6
    assert all(values == first for values in found.values())
    changes = {
        "blocks": {"block_size": 4},
        "agents": {"agents": ["ucb1"]},
        "more": {"replications": 9},
        "recording": {"recording": "every", "propensities": True, "agents": ["exact"]},
        "observations": {"environments": [{"env": ENV, "observation": "counts"}]},
    }
    for name, change in changes.items():
        for values in worlds_met(play(tmp_path / name, **base | change)).values():
            assert values[:6] == pytest.approx(first, abs=0)
    other = worlds_met(play(tmp_path / "seed", **base, seed=1))
    assert not set(other["random"]) & set(first)


def test_every_agent_meets_the_same_noise(tmp_path):
    """One uniform a step decides every arm's reward, so a better arm never pays less."""
    arms = [{"agent": "stub_agents:Constant", "arm": arm, "label": str(arm)} for arm in (0, 1, 2)]
    sizes = {"replications": 30, "horizon": 50, "block_size": 30}
    frame = play(tmp_path, environments=[FIXED], agents=arms, **sizes)
    table = frame.pivot(index="replication", columns=["agent", "step"], values="reward")
    worst, middle, best = (table[str(arm)].to_numpy() for arm in (0, 1, 2))
    for more, less in ((middle, worst), (best, middle)):
        gains = np.diff(more - less, axis=1, prepend=0)
        assert (gains >= 0).all() and gains.any()


def test_replications_are_the_episodes_of_a_single_environment_with_their_seed(tmp_path):
    """The seed of replication r is the first word of SeedSequence(seed, (0, r)), without a bit."""
    frame = play(tmp_path, environments=[ENV], agents=["ucb1"], seed=5)
    for replication, rows in frame.groupby("replication"):
        stream = SeedSequence(5, spawn_key=(0, replication))
        seed = int(stream.generate_state(1, "uint64")[0]) >> 1
        env = gym.make(f"bandit_gym:{ENV}", max_episode_steps=8)
        means = env.reset(seed=seed)[1]["means"]
        rewards = [env.step(action)[1] for action in rows["action"]]
        assert rows["reward"].tolist() == np.cumsum(rewards).tolist()
        regrets = np.cumsum(means.max() - means[rows["action"]])
        assert rows[CUMULATIVE_REGRET].to_numpy() == pytest.approx(regrets)


def test_agents_have_streams_of_their_own(tmp_path):
    """Agents, environments and blocks differ in what an agent draws; labels and sizes do not."""
    dicing = {"agent": "stub_agents:Dicing", "label": "plain"}
    another_arm = {**dicing, "arm": 1, "label": "another arm"}
    agents = [dicing, another_arm, {**dicing, "prior": FIVE, "label": "told a prior"}]
    worlds = [ENV, {"env": ENV, "num_arms": 3}]
    frame = play(tmp_path / "all", environments=worlds, agents=agents)
    first = frame[frame["step"] == 1]["draw"].to_numpy()
    assert len(set(first)) == len(first) == 2 * 3 * 6
    renamed = {**dicing, "label": "renamed"}
    again = play(tmp_path / "again", environments=[ENV], agents=[renamed], replications=9)
    assert again[again["step"] == 1]["draw"].tolist()[:6] == first[:6].tolist()
    seeded = play(tmp_path / "seed", environments=[ENV], agents=[dicing], seed=1)
    assert not set(seeded["draw"]) & set(again["draw"])


def test_recording_propensities_changes_no_other_number(tmp_path):
    agents = ["exact", {"agent": "racing", "stopping": 9}]
    settings = {"environments": [{"env": ENV, "num_arms": 3}], "agents": agents}
    plain = play(tmp_path / "plain", **settings)
    told = play(tmp_path / "told", **settings, propensities=True)
    assert set(told) - set(plain) == {"propensity", "propensity_is_exact"}
    assert told[plain.columns].drop(columns="experiment").equals(plain.drop(columns="experiment"))
    exact = told[told["agent"] == "exact"]
    assert told["propensity_is_exact"].tolist() == (told["agent"] == "exact").tolist()
    assert exact["propensity"].between(0, 1, inclusive="right").all()
    decided = play(tmp_path / "decided", **settings, propensities="decide")
    assert (decided["propensity_is_exact"] == 1).all() and (decided["propensity"] > 0).all()
    first = decided[(decided["agent"] == "exact") & (decided["step"] == 1)]
    assert first["propensity"].to_numpy() == pytest.approx(1 / 3)


def test_rewards_and_regret_are_those_of_values_and_costs(tmp_path):
    settings = {"environments": [{"env": ENV, "num_arms": 3}], "agents": ["stub_agents:Priced"]}
    prices = {"values": [2, 2, 2], "costs": np.full(3, 0.5), "floor": 0.1}
    plain, priced = play(tmp_path / "plain", **settings), play(tmp_path / "p", **settings, **prices)
    assert priced["reward"].tolist() == (2.0 * plain["reward"] - 0.5 * plain["step"]).tolist()
    for name in ("cumulative_regret", "realised_regret", "uniform_regret", "simple_regret"):
        np.testing.assert_allclose(priced[name], 2.0 * plain[name], 1e-6, 1e-13, err_msg=name)
    for name in ("optimal_pulls", "best_arm_found", "action"):
        assert priced[name].equals(plain[name]), name
    experiment = load_results(tmp_path / "p").experiment
    assert experiment == Experiment.from_dict(experiment.to_dict())
    assert (experiment.values, experiment.costs, experiment.floor) == ((2.0,) * 3, (0.5,) * 3, 0.1)
    assert experiment.runs[0].settings["values"] == (2.0,) * 3
    refused = {**settings, "agents": ["stub_agents:Constant"], "costs": [1, 1, 1]}
    with pytest.raises(ValueError, match="able to play .* agent must take costs in act"):
        play(tmp_path / "refused", **refused)


def test_runs_in_wrappers_are_the_same_again_and_blocks_differ(tmp_path):
    late = {"name": "DelayedReward", "delay": {"name": "uniform", "low": 0, "high": 3}}
    wrappers = [{"name": "Drift", "probability": 0.2}, late]
    worlds = [{"env": ENV, "num_arms": 3, "wrappers": wrappers}]
    agents = ["random", {"agent": "exact", "discount": 0.9}]
    for name in ("one", "two"):
        play(tmp_path / name, environments=worlds, agents=agents, propensities=True)
    one, two = (files_of(tmp_path / name) for name in ("one", "two"))
    assert one == two and len(set(one.values())) == 4
    frame = load_results(tmp_path / "two").frame()
    assert frame["realised_regret"].isna().all()  # of means that move there is no best one


def test_recorded_steps_are_all_or_two_hundred_evenly_spaced_in_log_time():
    for settings in ({"horizon": 200}, {"horizon": 1000, "recording": "every"}):
        steps = make_experiment(**settings).runs[0].steps
        assert steps.tolist() == list(range(1, settings["horizon"] + 1))
    for horizon in (201, 10**6):
        steps, ratio = make_experiment(horizon=horizon).runs[0].steps, horizon ** (1 / 199)
        assert len(steps) <= 200 and (steps[0], steps[-1]) == (1, horizon)
        # each step is the ratio times the one before, but for two roundings; at first, one more
        assert (np.diff(steps) > 0).all()
        assert (abs(steps[1:] - ratio * steps[:-1]) <= 0.5 + 0.5 * ratio).all()


def test_blocks_are_sorted_and_say_what_they_were_drawn_from_and_what_their_columns_mean(tmp_path):
    """How long it took stands beside."""
    play(tmp_path, environments=[ENV], agents=["random"])
    (run,) = load_results(tmp_path).experiment.runs
    for block, path in enumerate(sorted((tmp_path / "blocks").rglob("*.parquet"))):
        metadata = metadata_of(path)
        assert (metadata["run"], metadata["block"]) == (run.digest, block)
        assert metadata["settings"] == json.loads(json.dumps(run.settings))
        assert metadata["sources"] == {"environment": {}, "agent": {}}
        assert {"python", "numpy", "gymnasium"} <= set(metadata["versions"])
        assert {"results_version", "misspecification"} < set(metadata)
        table, replications = pq.read_table(path), range(3 * block, 3 * block + 3)
        told = {field.name: field.metadata[b"description"].decode() for field in table.schema}
        assert told[CUMULATIVE_REGRET] == "sum over steps of max(means) - means[action]"
        assert all(told.values())
        keys = [tuple(row.values()) for row in table.select(["replication", "step"]).to_pylist()]
        assert keys == [(replication, step) for replication in replications for step in range(1, 9)]
    (file,) = (tmp_path / "timings").iterdir()
    assert file.stem.startswith(f"{run.name}-")
    for timing in timings_of(tmp_path):
        assert timing["decisions"] == 3 * (8 - 4)  # of the later half of the steps
        assert 0 < timing["agent_seconds"] < timing["seconds"]
        assert {"block", "process", "host"} < set(timing)


# -- Columns ------------------------------------------------------------------------------------

BY_HAND = {
    "action": [0, 0, 1, 2],
    CUMULATIVE_REGRET: [0.7, 1.4, 1.8, 1.8],
    "uniform_regret": [1.1 / 3 * t for t in (1, 2, 3, 4)],
    "optimal_pulls": [0, 0, 0, 1],
    "simple_regret": [0.7, 0.7, 0.7, 0.7],
    "best_arm_found": [0, 0, 0, 0],
    "num_samples": [1, 3, 6, 10],
    "last_switch": [0, 0, 3, 4],
}
"""Of means 0.2, 0.5 and 0.9, whose gaps are 0.7, 0.4 and 0, and the arms 0, 0, 1, 2."""


def test_columns_of_a_known_episode_are_those_worked_out_by_hand(tmp_path):
    scripted = {"agent": "stub_agents:Scripted", "arms": [0, 0, 1, 2]}
    frame = play(tmp_path, environments=[FIXED], agents=[scripted], horizon=4)
    for _, rows in frame.groupby("replication"):
        for column, values in BY_HAND.items():
            assert rows[column].tolist() == pytest.approx(values, nan_ok=True), column
        realised = 0.9 * rows["step"] - rows["reward"]
        assert rows["realised_regret"].tolist() == pytest.approx(realised.tolist())
    assert set(frame["reward"]) > {0.0, 1.0}


def test_where_arms_are_pulled_equally_often_columns_are_averages_over_them(tmp_path):
    scripted = {"agent": "stub_agents:Scripted", "arms": [2, 1]}
    frame = play(tmp_path, environments=[FIXED], agents=[scripted], horizon=2, replications=1)
    assert frame["simple_regret"].tolist() == pytest.approx([0.0, 0.2])
    assert frame["best_arm_found"].tolist() == [1.0, 0.5]


def test_recorded_steps_have_the_sums_over_all_steps(tmp_path):
    """Of 300 steps 200 at most are recorded, and t (t + 1) / 2 samples were told of after t."""
    scripted = {"agent": "stub_agents:Scripted", "arms": [0, 1, 2]}
    frame = play(tmp_path, environments=[FIXED], agents=[scripted], horizon=300, replications=1)
    steps = frame["step"].to_numpy()
    assert len(steps) < 200
    assert frame["num_samples"].tolist() == (steps * (steps + 1) / 2).tolist()
    assert frame["last_switch"].tolist() == [0, *steps[1:]]
    regrets = np.cumsum(np.tile([0.7, 0.4, 0.0], 100))
    assert frame[CUMULATIVE_REGRET].to_numpy() == pytest.approx(regrets[steps - 1])


def test_the_last_switch_is_remembered_for_as_long_as_nothing_switches(tmp_path):
    """The recorder adds up many steps in one go; nothing switches in its later ones."""
    scripted = {"agent": "stub_agents:Scripted", "arms": [0, 1, *[0] * 98]}
    frame = play(tmp_path, environments=[ENV], agents=[scripted], horizon=100)
    assert (frame.loc[frame["step"] >= 3, "last_switch"] == 3).all()


def test_a_lane_stays_as_it_was_once_its_episode_has_ended(tmp_path):
    """Lane i ends after 2 + i steps; nothing is recorded of arms that nothing pulled."""
    scripted = {"agent": "stub_agents:Scripted", "arms": [0]}
    frame = play(tmp_path, environments=["stub_envs:Short-v0"], agents=[scripted], horizon=6)
    for replication, rows in frame.groupby("replication"):
        end = 2 + replication % 3
        assert rows["action"].tolist() == [0] * end + [-1] * (6 - end)
        assert rows["optimal_pulls"].iloc[-1] in (0, end)
        regret, reward = (rows[name].to_numpy() for name in (CUMULATIVE_REGRET, "reward"))
        assert (regret[end - 1 :] == regret[-1]).all() and (reward[end - 1 :] == reward[-1]).all()
        assert regret[-1] == pytest.approx(end * regret[0])
        assert rows["num_samples"].tolist()[end - 1 :] == [end * (end + 1) / 2] * (7 - end)
    assert [each["decisions"] for each in timings_of(tmp_path)] == [0 + 0 + 1] * 2  # after 3 steps


NAMED = "no names of recorded columns"
SHAPED = "real numbers of shape (3,) as its 'mood'"
SAYINGS = {
    "another column": ({"reward": [0, 0, 0]}, NAMED),
    "a key": ({"agent": [0, 0, 0]}, NAMED),
    "two lanes": ({"mood": [1, 2]}, SHAPED),
    "a word": ({"mood": "good"}, SHAPED),
    "nothing": ({"mood": [None, 1, 2]}, SHAPED),
}


def test_diagnostics_that_no_column_can_hold_fail_in_one_sentence(tmp_path):
    agents = [
        {"agent": "stub_agents:Saying", "says": says, "label": label}
        for label, (says, _) in SAYINGS.items()
    ]
    assert play(tmp_path, environments=[ENV], agents=agents).empty
    failures = failures_of(load_results(tmp_path))
    for label, (_, message) in SAYINGS.items():
        assert message in failures[label][0].partition("\n")[0], label


def test_diagnostics_that_come_later_are_refused_and_not_lost(tmp_path):
    """Whether the recorder has added up steps before them, or not."""
    saying = {"agent": "stub_agents:Saying", "says": {"mood": [1, 2, 3]}}
    agents = [{**saying, "grid": {"since": [5, 60]}}]
    assert play(tmp_path, environments=[ENV], agents=agents, horizon=80).empty
    failures = failures_of(load_results(tmp_path)).values()
    assert [len(each) for each in failures] == [2, 2]
    for failure in {text for each in failures for text in each.values()}:
        assert "the same names at every step, got ['mood']" in failure.partition("\n")[0]


def test_each_doubt_is_counted_in_a_column_of_its_own(tmp_path):
    capped, collapsed = Doubt.RACE_CAPPED, Doubt.PARTICLES_COLLAPSED
    says = {"doubts": [0, int(capped), int(capped | collapsed)]}
    agents = [{"agent": "stub_agents:Saying", "says": says}, "random"]
    frame = play(tmp_path, environments=[ENV], agents=agents)
    telling = frame[frame["agent"] != "random"]
    lane, step = telling["replication"] % 3, telling["step"]
    assert telling["doubts_race_capped"].tolist() == (step * (lane > 0)).tolist()
    assert telling["doubts_particles_collapsed"].tolist() == (step * (lane == 2)).tolist()
    assert telling["is_unreliable"].tolist() == (step * (lane > 0)).tolist()
    assert not telling["doubts_low_coverage"].any()
    assert frame.loc[frame["agent"] == "random", "doubts_race_capped"].isna().all()


def test_a_block_without_a_column_has_blanks_there_and_so_has_its_mean(tmp_path):
    sizes = {"environments": [ENV], "agents": ["random"]}
    whole = play(tmp_path, **sizes)
    path = next((tmp_path / "blocks").rglob("00001.*"))
    pq.write_table(pq.read_table(path).drop_columns(["last_switch"]), path)
    found = load_results(tmp_path)
    frame, (row,) = found.frame(), found.table().to_dict("records")
    assert found.damaged == () and np.isnan(row["last_switch"])
    assert frame["last_switch"].isna().tolist() == whole["replication"].isin([3, 4, 5]).tolist()
    assert frame[CUMULATIVE_REGRET].tolist() == whole[CUMULATIVE_REGRET].tolist()
    assert play(tmp_path, **sizes)["last_switch"].isna().any()  # nothing was computed again


def test_propensities_of_an_agent_that_says_nothing_of_them_are_not_exact(tmp_path):
    worlds = [{"env": ENV, "num_arms": 4}]
    rows = play(tmp_path, environments=worlds, agents=["stub_agents:Uniform"], propensities=True)
    assert (rows["propensity"] == 0.25).all() and (rows["propensity_is_exact"] == 0).all()


def test_propensities_weigh_logged_rewards_to_the_value_of_another_policy(tmp_path):
    """The other policy plays arm 0 always; under the uniform prior that pays 1 / 2 on average."""
    sizes = {"replications": 200, "horizon": 30, "block_size": 200, "propensities": True}
    worlds = [{"env": ENV, "num_arms": 3}]
    logged = play(tmp_path, environments=worlds, agents=["exact"], **sizes)
    paid = logged.groupby("replication")["reward"].diff().fillna(logged["reward"])
    assert np.allclose(logged["propensity"][logged["step"] == 1], 1 / 3, atol=1e-6)
    weights = (logged["action"] == 0) / logged["propensity"]
    values = (weights * paid).groupby(logged["replication"]).mean()
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - 0.5) < 4 * error
    assert paid.mean() - 0.5 > 4 * paid.std() / np.sqrt(len(paid))


def test_an_agent_that_takes_a_horizon_is_told_its_own_or_the_one_of_the_run(tmp_path):
    timed, own = ({"agent": "stub_agents:Timed", **options} for options in ({}, {"horizon": 9}))
    frame = play(tmp_path / "one", environments=[ENV], agents=[timed, own])
    told = frame[frame["step"] == 1].groupby("agent", observed=True)["told"].agg(set)
    assert told.tolist() == [{8}, {9}]
    with pytest.raises(ValueError, match=r"horizon must be one number .*, got \[4, 8\]; run an"):
        play(tmp_path / "two", environments=[ENV], horizon=[4, 8], agents=[timed])
    frame = play(tmp_path / "two", environments=[ENV], horizon=[4, 8], agents=[own])
    assert set(frame[frame["step"] == 1]["told"]) == {9}


# -- Priors that agents are told ----------------------------------------------------------------


def test_results_say_who_is_told_another_prior_than_the_environments(tmp_path):
    same = {"agent": "smc", "prior": {"name": "beta", "alpha": 1, "beta": 1}}
    wrong = {"agent": "exact", "prior": FIVE, "label": "mine"}
    experiment = Experiment([ENV], ["random", same, wrong], replications=2, horizon=5)
    run_experiment(experiment, tmp_path, workers=SERIAL)
    text = str(load_results(tmp_path))
    assert (
        "mine: misspecified, for it believes in the prior Beta(alpha=5.0, beta=5.0), where the "
        "environment's is Beta(alpha=1.0, beta=1.0)."
    ) in text
    assert text.count("misspecified") == 1


def test_an_agent_that_is_told_a_prior_plays_as_in_an_environment_of_that_prior(tmp_path):
    """A prior all but certain of the first arm makes every agent play it."""
    sure = {"name": "beta", "alpha": [990, 10, 10], "beta": [10, 990, 990]}
    agents = [{"agent": name, "prior": sure} for name in ("exact", "racing", "smc")]
    frame = play(tmp_path, environments=[{"env": ENV, "num_arms": 3}], agents=agents)
    assert len(frame) == 3 * 6 * 8 and (frame["action"] == 0).all()


# -- Bad calls ----------------------------------------------------------------------------------


def labelled(label):
    return {"agents": [{"agent": "random", "label": label}]}


class Started:
    """An agent that is no class but an object."""

    def act(self):
        """Never asked."""


class Trained:
    """A model of Stable-Baselines3, as far as settings look at it."""

    def predict(self):
        """Never asked."""


BAD_SETTINGS = [
    ({"environments": ["BernouliBandit-v0"]}, "nearest known one is 'BernoulliBandit-v0'"),
    ({"environments": [{"env": ENV, "num_arm": 3}]}, "nearest known one is 'num_arms'"),
    ({"environments": ["no_such_module:Bandit-v0"]}, "env must be"),
    ({"environments": []}, "environments must have at least one entry"),
    ({"agents": ["racin"]}, "nearest known one is 'racing'"),
    ({"agents": [{"agent": "racing_paper", "detla": 0.1}]}, "nearest known one is 'delta'"),
    ({"agents": ["agents:NoSuchAgent"]}, "agent must be importable"),
    ({"agents": ["./x:Y"]}, "agent must read module:name, got"),
    ({"agents": ["random", "random"]}, "agents must have different labels and settings, got"),
    (
        {"agents": ["random", {"agent": "random", "label": "dice"}]},
        "different labels and settings, got ['random', 'dice']; remove one",
    ),
    (labelled("\ud800"), "label must have 1 to 200 char"),
    (labelled("\u202elive"), "characters that can be printed"),
    (labelled("a" * 201), "label must have 1 to 200 char"),
    (labelled(""), "label must have 1 to 200 char"),
    (labelled(5), "label must be a str, got 5"),
    ({"agents": [{"agent": "ucb1", "grid": {"scale": []}}]}, "a table of non-empty lists"),
    ({"agents": "random"}, "agents must be a list"),
    ({"agents": [{"delta": 0.1}]}, "agent must be a name, a class, a function, or a dict"),
    ({"agents": [Started()]}, "agent must be a name, a class", "give what makes it"),
    ({"agents": [Trained()]}, "agent must be a name, a class", "agents.sb3:saved_model"),
    ({"agents": [{"agent": "racing_paper", "delta": float("nan")}]}, "must be JSON-able"),
    ({"agents": [{"agent": "last_paid:LastPaid", "first": {2: 1}}]}, "with texts for keys, got"),
    ({"agents": [{"agent": "last_paid:LastPaid", "first": [{(0, 1): 1}]}]}, "with texts for keys"),
    ({"replications": 1.5}, "replications must be a positive integer, got 1.5"),
    ({"horizon": []}, "horizon must be a positive integer, got []"),
    ({"horizon": [0, 9]}, "horizon must be a positive integer, got 0"),
    ({"horizon": [5, 5]}, "horizon must be in increasing order, each once, got [5, 5]"),
    ({"seed": -1}, "seed must be a non-negative integer, got -1"),
    ({"block_size": 0}, "block_size must be a positive integer, got 0"),
    ({"recording": "each"}, "recording must be one of 'log', 'every', got 'each'"),
    ({"propensities": 1}, "propensities must be True, False or 'decide', got 1"),
    ({"horizon": 10**15, "recording": "every"}, "block_size, horizon and recording must be"),
]


def test_experiment_refuses_bad_settings_in_one_sentence():
    check_refusals(lambda changes: make_experiment(**changes), BAD_SETTINGS)


def test_an_environment_that_another_process_lacks_is_refused_with_what_to_do():
    gym.register("Fleeting-v0", entry_point="bandit_gym.envs.families:bernoulli")
    (run,) = make_experiment(environments=["Fleeting-v0"], agents=["random"]).runs
    del gym.registry["Fleeting-v0"]
    with pytest.raises(ValueError, match=r"my_module:Id-v0', got 'Fleeting-v0'"):
        make_agent_and_environment(run)


NO_EXPERIMENTS = [
    ("a.toml", "replications = = 7", "path must lead to valid TOML or JSON", "a.toml"),
    ("a.json", "null", "experiment must be a dict"),
    ("a.json", '{"environments": [5], "agents": ["random"]}', "env must be an id, a Bandit"),
    ("a.json", '{"seed": 1, "seed": 2}', "TOML or JSON", "'seed' must stand once"),
    ("", None, "directory"),
    ("nothing.toml", None, "nothing.toml"),
]


def test_a_file_of_no_experiment_is_refused_in_one_sentence(tmp_path):
    def read(name, text):
        if text is not None:
            (tmp_path / name).write_text(text)
        load_experiment(tmp_path / name)

    check_refusals(read, NO_EXPERIMENTS)
