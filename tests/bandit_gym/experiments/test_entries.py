import pytest

from bandit_gym.experiments.entries import Entry, content_digest, read_entries, write_entry


def read(*items, kind="agent"):
    return read_entries("agents", kind, items)


def test_entry_holds_target_options_and_label():
    (entry,) = read({"agent": "racing", "delta": 0.5})
    assert entry == Entry("agents:RacingThompson", {"delta": 0.5}, "racing(delta=0.5)")


def test_entry_is_read_from_an_entry_as_it_is():
    (entry,) = read("random")
    assert read(entry) == (entry,)


def test_entry_survives_being_written():
    (entry,) = read({"agent": "racing", "delta": 0.5, "label": "mine"})
    assert read(write_entry("agent", entry)) == (entry,)


def test_label_of_a_grid_has_the_point_behind_it():
    entries = read({"agent": "ucb1", "label": "mine", "grid": {"scale": [0.5, 1.0]}})
    assert [entry.label for entry in entries] == ["mine(scale=0.5)", "mine(scale=1.0)"]


def test_label_writes_text_plainly_and_lists_without_blanks():
    options = {"prior": {"name": "beta", "alpha": 5}, "means": [0.2, 0.5]}
    (entry,) = read({"env": "BernoulliBandit-v0", "num_arms": 2, **options}, kind="env")
    assert entry.label == ("BernoulliBandit-v0(num_arms=2,prior=beta(alpha=5),means=[0.2,0.5])")


def test_a_prior_without_parameters_is_its_name():
    (entry,) = read({"env": "BernoulliBandit-v0", "prior": {"name": "uniform"}}, kind="env")
    assert entry.label == "BernoulliBandit-v0(prior=uniform)"


def test_equal_entries_hash_alike_and_others_differ():
    one, same, other = (*read({"agent": "ucb1", "scale": 1.0}),) * 2 + read("random")
    assert hash(one) == hash(same) != hash(other)
    assert one.digest == same.digest != other.digest
    assert len(one.digest) == 64


def test_digest_does_not_depend_on_the_order_of_keys():
    assert content_digest({"a": 1, "b": 2}) == content_digest({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        content_digest({"a": float("nan")})


@pytest.mark.parametrize("grid", [{"scale": []}, {"scale": 1.0}, [1.0], {"scale": "ab"}])
def test_a_grid_is_a_table_of_lists_with_something_in_them(grid):
    with pytest.raises(TypeError, match="grid of agent must be a table of non-empty lists"):
        read({"agent": "ucb1", "grid": grid})


@pytest.mark.parametrize("item", [{"agent": 3}, {}, 3, ["random"]], ids=str)
def test_an_entry_has_a_name(item):
    with pytest.raises(TypeError, match="agent must be a name or a dict with the key 'agent'"):
        read(item)


@pytest.mark.parametrize("entries", ["random", {"agent": "random"}, 3], ids=str)
def test_entries_are_a_list(entries):
    with pytest.raises(TypeError, match="agents must be a list of names or dicts"):
        read_entries("agents", "agent", entries)


def test_two_entries_of_one_label_are_refused():
    with pytest.raises(ValueError, match="different labels, got 'b' more than once"):
        read(
            {"agent": "random", "label": "a"},
            {"agent": "ucb1", "label": "b"},
            {"agent": "random", "label": "b"},
        )
