import numpy as np
import pytest

from agents.optimum import policy as policies
from agents.optimum.policy import find_policy, solve_policy

N, S = np.arange(40.0)[:, None], np.arange(40.0)
UNIFORM, LUCKY = ((alpha + S) / (alpha + 1 + N) for alpha in (1.0, 2.0))
MEANS, SHAPE = np.stack([UNIFORM, LUCKY]), (40, 2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))
    return tmp_path


def forbid_solving(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("solved again")

    monkeypatch.setattr(policies, "solve", refuse)


def same(a, b):
    return (
        a.value == b.value
        and np.array_equal(a.words, b.words)
        and all(map(np.array_equal, a.runs, b.runs))
    )


def test_a_policy_is_solved_for_once(monkeypatch):
    first = find_policy(MEANS, *SHAPE)
    forbid_solving(monkeypatch)
    assert same(find_policy(MEANS, *SHAPE), first)


def test_every_damage_to_the_file_is_noticed_and_mended(folder):
    first = find_policy(MEANS, *SHAPE)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    places = np.random.default_rng(0).integers(len(whole), size=25)
    damaged = [whole[: len(whole) // 2], b"", b"not a policy"]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in places]
    for data in damaged:
        path.write_bytes(data)
        assert same(find_policy(MEANS, *SHAPE), first)
    path.write_bytes(b"")
    find_policy(MEANS, *SHAPE)
    assert path.read_bytes() == whole


def test_another_problem_horizon_or_version_has_another_file(folder, monkeypatch):
    find_policy(MEANS, *SHAPE)
    find_policy(MEANS[:1], *SHAPE)
    find_policy(MEANS, 39, 2)
    monkeypatch.setattr(policies, "POLICY_VERSION", policies.POLICY_VERSION + 1)
    find_policy(MEANS, *SHAPE)
    assert len(list(folder.iterdir())) == 4


def test_without_room_for_a_file_the_policy_is_there_all_the_same(folder, monkeypatch):
    (folder / "file").write_text("no folder")
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(folder / "file"))
    assert same(find_policy(MEANS, *SHAPE), solve_policy(MEANS, *SHAPE))


def test_rows_of_many_runs_are_kept_exactly():
    # Choices of no pattern at all: every row has runs of its own.
    rng = np.random.default_rng(0)
    offsets, lengths = np.array([0, 30, 70]), np.array([10, 20])
    dictionary = policies.Dictionary()
    for _ in range(300):  # more runs than the dictionary first has room for
        choices = rng.integers(1, 4, size=70).astype(np.uint8)
        words = dictionary.spell(choices, offsets, lengths)
        last = np.repeat(words, [10, 10, 10, 20, 20])
        successes = np.concatenate([np.arange(length) for length in (10, 10, 10, 20, 20)])
        np.testing.assert_array_equal(dictionary.runs.choice_at(last, successes), choices)
