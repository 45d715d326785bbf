"""TableBandit-v0: rows of a table in random order, for agents that are told a prior."""

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from refusals import check_refusals
from surface import SERIAL
from wrapped_envs import play_both

import bandit_gym as bg
from agents import LinUCB, RacingThompson
from bandit_gym.contexts import disjoint, hierarchical
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import wrap

ID, REWARDS, NUM_ROWS, NUM_ARMS = "TableBandit-v0", ["left", "middle", "right"], 8, 3
RNG = np.random.default_rng(0)
VISITORS = RNG.standard_normal((NUM_ROWS, 2)).round(3)
PAID = RNG.integers(2, size=(NUM_ROWS, NUM_ARMS)).astype(float)
FRAME = pd.DataFrame(np.hstack([PAID, VISITORS]), columns=[*REWARDS, "age", "time"])


def make(**options):
    return gym.make(ID, **{"features": VISITORS, "rewards": PAID} | options)


def transcript(env, num_steps=NUM_ROWS):
    """Return what an episode of arm 1 says, from a reset on."""
    return [env.reset(seed=3), *(env.step(1) for _ in range(num_steps))]


def test_a_table_is_the_same_from_arrays_a_frame_and_files(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet"), FRAME.to_csv(tmp_path / "rows.csv", index=False)
    expected = transcript(make())
    for table in (FRAME, str(tmp_path / "rows.parquet"), tmp_path / "rows.csv"):
        for names in (None, ["age", "time"]):
            env = make(table=table, rewards=REWARDS, features=names)
            assert data_equivalence(transcript(env), expected, exact=True)
    given = make(features=disjoint(VISITORS, NUM_ARMS))
    assert data_equivalence(transcript(given), expected, exact=True)
    flagged = make(table=FRAME.assign(age=FRAME["age"] > 0), rewards=REWARDS, features=None)  # bool
    assert flagged.reset(seed=3)[0][0, 1] == (expected[0][0][0, 1] > 0)
    shared = make(contexts="hierarchical").reset(seed=3)[0]
    assert shared.tolist() in hierarchical(VISITORS, NUM_ARMS).tolist()


def test_an_episode_has_each_row_once_in_an_order_of_its_own_and_ends_after_the_last():
    env, orders = make(render_mode="ansi"), []
    check_env(env.unwrapped)
    rows = disjoint(VISITORS, NUM_ARMS).tolist()
    for _ in range(2):
        seen, _ = env.reset(seed=None if orders else 3)
        orders.append([])
        lost = 0.0
        for number in range(NUM_ROWS):
            row = rows.index(seen.tolist())
            seen, reward, terminated, truncated, info = env.step(number % NUM_ARMS)
            paid = PAID[row]
            assert (reward, info["regret"]) == (paid[number % NUM_ARMS], paid.max() - reward)
            assert info["optimal_action"] == paid.argmax() and info["means"].tolist() == [*paid]
            assert (terminated, truncated) == (False, number == NUM_ROWS - 1)
            orders[-1].append(row)
            lost += info["regret"]
        assert f"regret {lost:.1f}" in env.render()
        assert seen in env.observation_space
        with pytest.raises(ResetNeeded, match="reset must be called after the last row"):
            env.step(0)
    assert [sorted(order) for order in orders] == [[*range(NUM_ROWS)]] * 2
    assert orders[0] != orders[1]


@pytest.mark.parametrize("limit", [None, 3, 20])
@pytest.mark.parametrize("wrappers", [[], [{"name": "DelayedReward", "delay": 2}]], ids=len)
def test_native_equals_sync(limit, wrappers):
    arrays = {"features": VISITORS, "rewards": PAID, "max_episode_steps": limit}
    singles = [lambda: wrap(make(max_episode_steps=limit), wrappers)] * 3
    for mode in AutoresetMode:
        native = wrap(gym.make_vec(ID, 3, autoreset_mode=mode, **arrays), wrappers)
        sync = SyncVectorEnv(singles, autoreset_mode=mode)
        for ours, theirs in play_both(native, sync, 20, NUM_ARMS):
            assert data_equivalence(ours, theirs, exact=True), mode


def test_agents_are_told_a_prior_or_ask_for_one_in_a_sentence():
    env = make()
    d = env.observation_space.shape[1]
    problem = ContextualProblem(env.unwrapped.problem.likelihood, Normal(0.0, 1.0), NUM_ARMS, d)
    agents = RacingThompson(problem), RacingThompson(env, prior=Normal(0.0, 1.0))
    played = [rollout(agent, env, seed=0, horizon=20) for agent in agents]
    assert played[0].actions.tolist() == played[1].actions.tolist()
    assert played[0].lengths.tolist() == [NUM_ROWS]
    many = gym.make_vec(ID, 1, features=VISITORS, rewards=PAID)
    for each in (env, many, make(max_episode_steps=5)):
        shorter = getattr(each.spec, "max_episode_steps", None) or NUM_ROWS
        assert rollout(LinUCB(each), each, seed=0).lengths.tolist() == [shorter]
    with pytest.raises(ValueError, match="prior must be given where the environment knows none"):
        RacingThompson(env)


def test_it_is_compared_and_its_regret_is_named_for_what_it_is(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    env = {"env": ID, "table": tmp_path / "rows.parquet", "rewards": REWARDS}
    prior = {"name": "normal", "mean": 0.0, "std": 1.0}
    agents = [{"agent": "laplace", "prior": prior}, "lin_ucb"]
    sizes = {"replications": 4, "horizon": 10, "block_size": 2, "progress": False}
    racing = {"agent": "racing", "prior": prior}
    found = bg.compare([*agents, racing], env=env, workers=SERIAL, **sizes)
    samples = found.runs[-1].final("num_samples").mean() / NUM_ROWS  # where 10 steps were asked for
    assert found.table()["samples_per_decision"].iloc[-1] == pytest.approx(samples)
    assert found.curves()["step"].max() == NUM_ROWS and f"of {NUM_ROWS} steps" in str(found)
    assert found.plot().axes[0].lines[0].get_xdata()[-1] == NUM_ROWS
    assert "best reward of each row: sum over steps of best reward - reward received" in str(found)
    with pytest.raises(ValueError, match="prior must be given"):
        bg.compare(["laplace"], env=env, workers=SERIAL, **sizes)


TABLES = [
    ({"rewards": PAID[:3]}, "features must have shape (3, p) or (3, 3, d), as"),
    ({"rewards": PAID[:, :1]}, "rewards must have a row for each visitor and 2 arms or more"),
    ({"rewards": PAID + 0.5}, "rewards must be 0 or 1 under bernoulli rewards, got"),
    ({"features": np.full(VISITORS.shape, np.inf)}, "features and rewards must be finite"),
    ({"rewards": PAID - 1e200, "likelihood": "gaussian"}, "rewards must stay within", "1e+150"),
    ({"contexts": "normal"}, "contexts must be"),
    ({"table": FRAME, "rewards": ["lift", "right"]}, "rewards must be a list of names"),
    ({"table": FRAME.reset_index(names="Unnamed: 0"), "rewards": REWARDS}, "has its index"),
    ({"table": pd.DataFrame(np.eye(3)), "rewards": "01"}, "rewards must be a list of names of"),
    ({"table": FRAME, "rewards": PAID.tolist()}, "rewards must be a list of names of columns, of"),
    ({"table": FRAME.assign(at="noon"), "rewards": REWARDS}, r"'noon', first in row 2; list the"),
    ({"table": "rows.txt", "rewards": REWARDS}, "ending of table must be"),
    ({"table": pd.concat([FRAME, FRAME], axis=1), "rewards": REWARDS}, "names of one column each"),
    ({"table": PAID, "rewards": REWARDS}, "table must be a data frame, or the path of a file, got"),
]


def test_what_is_no_table_is_refused(tmp_path):
    (torn := tmp_path / "rows.parquet").touch()
    unread = {"table": torn, "rewards": REWARDS}, "table must be a file that can be read, got"
    features = {True: {"features": None}, False: {}}
    check_refusals(lambda given: make(**features["table" in given] | given), [*TABLES, unread])
