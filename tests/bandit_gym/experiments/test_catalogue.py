import inspect

import pytest

from bandit_gym import ENV_IDS
from bandit_gym.experiments import catalogue
from bandit_gym.experiments.packed import pack
from bandit_gym.likelihoods import LIKELIHOODS, Bernoulli
from bandit_gym.priors import PRIORS, Beta
from bandit_gym.problem import BanditProblem


def test_names_are_resolved_to_what_any_process_can_import():
    env = "BernoulliBandit-v0"
    assert catalogue.resolve_environment(env, {}) == f"bandit_gym:{env}"
    assert catalogue.resolve_environment(f"bandit_gym:{env}", {}) == f"bandit_gym:{env}"
    assert catalogue.resolve_agent("racing", {}) == "agents:RacingThompson"
    assert catalogue.resolve_agent("racing_paper", {}) == "agents:RacingThompson.paper"
    assert catalogue.resolve_agent("stub_agents:Constant", {}) == "stub_agents:Constant"


def test_short_names_are_the_projects_own_or_what_follows_the_module():
    assert catalogue.short_name("agents:RacingThompson") == "racing"
    assert catalogue.short_name("agents:RacingThompson.paper") == "racing_paper"
    assert catalogue.short_name("stub_agents:Constant") == "Constant"
    assert catalogue.short_name("stub_agents:Constant.first") == "Constant.first"
    assert catalogue.short_name("bandit_gym:BernoulliBandit-v0") == "BernoulliBandit-v0"
    assert catalogue.short_name("CartPole-v1") == "CartPole-v1"


def test_options_of_an_agent_leave_its_problem_out():
    assert list(catalogue.agent_options("stub_agents:Constant")) == ["arm"]


def test_options_of_an_environment_are_its_constructors():
    assert "num_arms" in catalogue.environment_options("bandit_gym:BernoulliBandit-v0")
    assert "render_mode" in catalogue.environment_options("CartPole-v1")


def test_options_of_a_problem_are_the_environments_without_the_problem():
    options = catalogue.environment_options(pack(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)))
    assert "problem" not in options and {"means", "render_mode"} <= set(options)


@pytest.mark.parametrize("options", [{"label": "a"}, {"grid": {}}, {"arm": 1}], ids=str)
def test_an_entry_may_have_a_label_and_a_grid_beside_its_options(options):
    catalogue.resolve_agent("stub_agents:Constant", options)


def test_an_option_that_does_not_exist_is_refused_by_the_name_of_what_lacks_it():
    with pytest.raises(ValueError, match="options of Constant must .*'amr'"):
        catalogue.resolve_agent("stub_agents:Constant", {"amr": 1})


def test_a_constructor_that_takes_any_option_is_given_any(monkeypatch):
    monkeypatch.setattr("stub_agents.Anything", _Anything, raising=False)
    assert catalogue.resolve_agent("stub_agents:Anything", {"whim": 1}) == "stub_agents:Anything"


class _Anything:
    def __init__(self, problem, **options):
        pass

    reset = act = observe = __init__


@pytest.mark.parametrize("target", ["./x:Y", ".x:Y", ":A", "a b:C"])
def test_an_agent_that_is_not_written_as_module_and_class_is_refused(target):
    with pytest.raises(ValueError, match="agent must be a short name or read module:Class, got"):
        catalogue.resolve_agent(target, {})


@pytest.mark.parametrize("target", ["agents:AGENTS", "builtins:print", "collections:OrderedDict"])
def test_what_can_be_no_agent_is_refused_before_it_is_called(target):
    with pytest.raises(TypeError, match=f"with methods reset, act, observe, .* got '{target}'"):
        catalogue.resolve_agent(target, {})


@pytest.mark.parametrize("target", ["no_such_module:A", "stub_agents:NoSuchAgent"])
def test_an_agent_that_cannot_be_imported_is_refused(target):
    with pytest.raises(ValueError, match="agent must be an importable class, got"):
        catalogue.load_agent(target)


def test_the_catalogue_lists_all_by_name_with_summaries_and_options():
    listed = {
        "environments": ENV_IDS,
        "wrappers": catalogue.wrappers_by_name(),
        "agents": catalogue.agent_names(),
        "priors": PRIORS,
        "likelihoods": LIKELIHOODS,
    }
    for kind, names in listed.items():
        heading, *blocks = catalogue.describe_catalogue(kind).split("\n\n")
        assert heading == kind.upper()
        _check_blocks([block for block in blocks if not block.startswith("Each is a dict")], names)


def test_the_whole_catalogue_is_the_list_of_each_kind():
    kinds = ("environments", "wrappers", "agents", "priors", "likelihoods")
    parts = [catalogue.describe_catalogue(kind) for kind in kinds]
    assert catalogue.describe_catalogue() == "\n\n".join(parts)
    with pytest.raises(ValueError, match="got 'agent'; the nearest known one is 'agents'"):
        catalogue.describe_catalogue("agent")


def _check_blocks(blocks, names):
    assert [block.partition(":")[0] for block in blocks] == [*names]
    for block in blocks:
        summary, *options = block.splitlines()
        assert summary.endswith(".")
        assert options
        assert all(line.startswith("    ") and line[4] != " " for line in options)


def test_the_catalogue_says_so_where_there_is_nothing_to_choose():
    (block,) = (b for b in catalogue.describe_catalogue().split("\n\n") if b.startswith("random:"))
    assert block.splitlines()[1] == "    no options"


def test_the_catalogue_is_written_in_lines_of_at_most_84_characters():
    options = [line for line in catalogue.describe_catalogue().splitlines() if line[:4] == "    "]
    assert 70 < max(map(len, options)) <= 84


@pytest.mark.parametrize(("size", "lengths"), [(36, [80]), (37, [41, 39])])
def test_options_are_written_on_one_line_if_eighty_characters_hold_them(size, lengths):
    """Each is a name, "=1" and a comma, but for the last: 38 + 3, a blank, and 36 + 2 are 80."""
    options = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=1)
        for name in ("a" * 38, "b" * size)
    }
    _, *lines = catalogue._describe("name", dict, options).splitlines()
    assert [len(line) - 4 for line in lines] == lengths


def test_other_agents_that_python_finds_first_are_named_and_not_run(tmp_path, monkeypatch):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("raise SystemError('this is run')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=f"agents must be .*, got '{tmp_path}/agents/__init__.py"):
        catalogue.agent_names()
