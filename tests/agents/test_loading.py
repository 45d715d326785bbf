"""Saved agents: they go on bit for bit, and files hold no code."""

import io
import json
import zipfile
from pathlib import Path

import agent_files
import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS
from geometric import Geometric
from gymnasium.error import ResetNeeded
from last_paid import LastPaid
from refusals import check_refusals
from surface import started

import agents
from agents import ExactThompson, make_agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedNormal
from bandit_gym.priors.mixtures import HierarchicalBeta
from bandit_gym.problem import BanditProblem

BERNOULLI = CONJUGATE_PROBLEMS[0]
TABLE = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 4)
OWN = BanditProblem(Geometric(), TruncatedNormal(2.0, 1.0, 1.1, 6.0), 3)
HIDDEN = BanditProblem(Bernoulli(), HierarchicalBeta([2.0, 8.0], [8.0, 2.0]), 4)
PARTICLES = {"num_particles": 40}
CASES = {
    "exact": ("exact", BERNOULLI, {}),
    "discounted_gittins": ("discounted_gittins", BERNOULLI, {"discount": 0.9}),
    "optimal": ("optimal", BERNOULLI, {"horizon": 30}),
    "table": ("exact", TABLE, {}),
    "fading particles": ("smc", TABLE, PARTICLES | {"discount": 0.9}),
    "window": ("sliding_window", TABLE, {"window": 5}),
    "own likelihood": ("exact", OWN, {}),
    "populations": ("smc", TABLE, PARTICLES),
    "schedule": ("smc_paper", HIDDEN, {"num_particles": [*range(20, 60)]}),
    "joint populations": ("smc", HIDDEN, PARTICLES),
    "mixture": ("racing", HIDDEN, {}),
    "greedy": ("greedy", BERNOULLI, {}),
}
CASES = {case: make_agent(name, of, **given) for case, (name, of, given) in CASES.items()}


def play(agent, num_steps, seed):
    """Return the actions of some steps with rewards of a fixed seed, and what is said of them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(num_steps):
        action = agent.act()
        draw = rng.random(agent.num_lanes)
        reward = np.ceil(3 * draw) if agent.problem.likelihood.support[0] >= 1 else draw.round()
        agent.observe(action, reward if agent.num_envs else reward[0])
        found.append((np.array(action).tolist(), agent.diagnostics()))
    return found


def is_same(first, second):
    """Say whether two plays are equal, diagnostics and NaN included."""
    return all(
        one == other and a.keys() == b.keys() and all(np.array_equal(a[k], b[k], True) for k in a)
        for (one, a), (other, b) in zip(first, second, strict=True)
    )


HARD_DATA = [30, 1000, 0, 0], [30, 970, 0, 0]
CONTINUED = [
    *((name, None) for name in ("optimal", "fading particles", "window", "own likelihood")),
    *((name, None) for name in ("schedule", "joint populations")),
    *((name, HARD_DATA) for name in ("joint populations", "mixture")),
    ("discounted_gittins", ([200, 0, 0, 0], [120, 0, 0, 0])),
]
"""Beyond those of `contracts/test_agents.py`, and what only long data bring about."""


@pytest.mark.parametrize(("name", "data"), CONTINUED)
def test_loaded_agent_continues_bit_for_bit_also_where_lanes_began_again(name, data, tmp_path):
    agent = CASES[name]
    agent.reset(3, seed=4)
    if data is not None:
        agent.warm_start(*data)
    for begins_again in (False, True):
        play(agent, 8 if data is None else 2, seed=1)
        agent.reset_lanes(np.array([False, begins_again, False]))
        agent.save(tmp_path / "agent")
        loaded = agents.load(tmp_path / "agent", agent.problem)
        assert type(loaded) is type(agent) and loaded.num_envs == 3
        assert loaded.diagnostics().keys() == agent.diagnostics().keys()
        assert is_same(play(agent, 1, seed=2), play(loaded, 1, seed=2))
        assert is_same(play(agent, 6, seed=3), play(loaded, 6, seed=3))


def saved(agent, folder):
    """Return the path of an agent that has played a little."""
    path = folder / type(agent).__name__
    agent.reset(2, seed=0)
    play(agent, 3, seed=1)
    agent.save(path)
    return path


def test_problem_without_a_name_must_be_given_and_is_the_saved_one(tmp_path):
    path = saved(CASES["table"], tmp_path)
    assert agents.load(path).problem == TABLE
    other = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.3), 4)
    the_one = ValueError, "problem must be the one with the prior TruncatedNormal"
    check_refusals(lambda problem: agents.load(path, problem), [(other, *the_one)])
    path = saved(CASES["own likelihood"], tmp_path)
    refused = [(None, *the_one), ("bernoulli", TypeError, "problem must be a BanditProblem")]
    check_refusals(lambda problem: agents.load(path, problem), refused)


def test_class_of_ones_own_is_given_and_says_what_it_remembers(tmp_path):
    agent = LastPaid(BERNOULLI, first=2)
    path = saved(agent, tmp_path)
    with pytest.raises(ValueError, match="must be LastPaid in last_paid for .* got None"):
        agents.load(path)
    loaded = agents.load(path, agent_class=LastPaid)
    assert (loaded.first, loaded.history) == (2, agent.history)
    assert is_same(play(agent, 5, seed=2), play(loaded, 5, seed=2))
    with pytest.raises(ValueError, match="agent_class must be LastPaid"):
        agents.load(path, agent_class=ExactThompson)


def test_values_of_any_shape_come_back_as_they_were(tmp_path):
    agent = started(LastPaid, BERNOULLI, 1)
    grid = np.asfortranarray(np.arange(6.0).reshape(2, 3)).T
    agent.history = [{"a": 1, "b": [True, None, 0.1, "text"]}, np.array(3), grid, np.zeros((0, 2))]
    agent.save(tmp_path / "agent")
    plain, scalar, array, empty = agents.load(tmp_path / "agent", agent_class=LastPaid).history
    assert plain == agent.history[0] and scalar.shape == () and scalar == 3
    assert (array == grid).all() and empty.shape == (0, 2)


class Silent(LastPaid):
    """Does not say what it remembers."""


def test_state_that_is_no_data_or_that_a_class_does_not_tell_is_refused(tmp_path):
    for agent_class, history, text in (
        (LastPaid, [print], "state must be made of numbers"),
        (LastPaid, [{0: 3}], "state must have texts for keys of its dicts"),
        (Silent, [print], "Silent must have state_names to be saved"),
    ):
        agent = started(agent_class, BERNOULLI, 1)
        agent.history = history
        with pytest.raises(TypeError, match=text):
            agent.save(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


def test_tables_and_counts_of_format_5_are_read_and_particles_are_refused():
    folder = Path(__file__).parent / "data"
    exact = agents.load(folder / "exact-format-5.agent")
    assert (repr(exact), exact.num_envs) == (f"ExactThompson({BERNOULLI!r})", None)
    assert exact.counts.tolist() == [0, 2, 3, 2] and exact.sums.tolist() == [0, 0, 3, 1]
    drawn_ahead = [2, 0, 0, 0, 2, 0, 2, 0, 2, 2, 0, 2]
    assert [exact.act() for _ in drawn_ahead] == drawn_ahead
    text = "format 6 or later for ParticlePosterior, got 5; build the agent again, and give"
    with pytest.raises(ValueError, match=text):
        agents.load(folder / "particles-format-5.agent")


@pytest.mark.parametrize(
    ("name", "file_format"),
    [*((name, 6) for name in agent_files.AGENTS), ("tables", 5), ("linear", 5)],
)
def test_files_in_the_repository_go_on_as_when_they_were_written(name, file_format):
    """Run `python tests/support/agent_files.py` after a change of the format, or of draws.

    Chains go on alike for one decision: their products of matrices round as the processor does.
    """
    agent = agents.load(agent_files.path_of(name, file_format))
    expected = json.loads(agent_files.EXPECTED.read_text())[name]
    compared = slice(4 if name == "chains" else None)
    assert agent_files.describe(agent)[compared] == expected[compared]


def test_what_an_older_format_does_not_have_is_as_in_a_fresh_agent(tmp_path):
    def change(content):
        content["state"]["evidence"]["of_old"] = 1
        del content["state"]["_diagnostics"]

    path = tmp_path / "agent"
    path.write_bytes(agent_files.path_of("tables", 5).read_bytes())
    agent = agents.load(with_content(path, change))
    expected = json.loads(agent_files.EXPECTED.read_text())["tables"]
    assert agent.diagnostics() == {} and agent_files.describe(agent) == expected


def rewritten(path, change):
    """Write another file with some of its parts changed, and return its path."""
    other = path.with_name("other")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return other


def with_content(path, change):
    """Write another file whose JSON is changed in place."""
    with np.load(path) as parts:
        arrays = dict(parts)
    content = json.loads(arrays["agent"].tobytes())
    change(content)
    arrays["agent"] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    with open(path.with_name("other"), "wb") as file:
        np.savez(file, **arrays)
    return path.with_name("other")


def as_object(name, data):
    """Return an array that would be unpickled."""
    file = io.BytesIO()
    np.save(file, np.array([print], dtype=object), allow_pickle=True)
    return file.getvalue() if name != "agent.npy" else data


def as_huge(name, data):
    """Return an array that says to be much longer than it is."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() if name != "agent.npy" else data


def place(*keys):
    """Return a change of a JSON value: its place, and the value last."""

    def change(content):
        *path, last, value = keys
        for key in path:
            content = content[key]
        content[last] = value

    return change


ALTERED = [
    ("populations", place("format", 4), "format is 4 where 5 and 6 are read"),
    ("populations", place("options", {"delta": 7}), "delta"),
    ("populations", place("problem", "prior", "name", "os:system"), "prior name must be", "os:sys"),
    ("populations", place("num_envs", 10**9), "num_envs"),
    ("populations", place("generator", "bit_generator", "MT19937"), "PCG64"),
    ("populations", place("state", {}), "evidence"),
    ("populations", place("state", "evidence", "counts", {"<array>": "99"}), "99"),
    ("populations", place("state", "_posterior", {}), "must name"),
    ("populations", place("state", "more", 1), "must name"),
    ("greedy", place("options", {"prior": "os:getcwd"}), "no keys but"),
    ("greedy", place("options", {"posterior": "os:getcwd"}), "name no code"),
]


def test_an_altered_file_or_one_whose_options_name_code_is_refused(tmp_path):
    paths = {name: saved(CASES[name], tmp_path) for name in ("populations", "greedy")}
    check_refusals(lambda name, change: agents.load(with_content(paths[name], change)), ALTERED)


def test_damaged_parts_and_foreign_files_are_refused(tmp_path):
    path = saved(CASES["populations"], tmp_path)
    for change in (as_object, as_huge, lambda name, data: b"", lambda name, data: data[:9]):
        with pytest.raises(ValueError, match="path must lead to a whole file"):
            agents.load(rewritten(path, change))
    for content in (b"", b"no zip", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="path must lead to a whole file"):
            agents.load(path)


def test_file_with_a_changed_byte_is_refused_or_read_alike(tmp_path):
    agent = CASES["exact"]
    path = saved(agent, tmp_path)
    data, expected = bytearray(path.read_bytes()), agent.counts.copy()
    for at in range(0, len(data), 53):
        data[at] ^= 0x55
        path.write_bytes(data)
        try:
            assert (agents.load(path).counts == expected).all()
        except ValueError as error:
            assert "path must lead to a whole file" in str(error)  # noqa: PT017
        data[at] ^= 0x55


def test_missing_file_folders_and_agents_that_were_not_reset_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        agents.load(tmp_path / "none")
    agent = ExactThompson(BERNOULLI)
    with pytest.raises(ResetNeeded, match="reset"):
        agent.save(tmp_path / "agent")
    agent.reset(seed=0)
    with pytest.raises(IsADirectoryError, match="path must be a file"):
        agent.save(tmp_path)
    assert not list(tmp_path.iterdir())
