"""Agents that are told another prior than their world's: what they get, and where it is said."""

import json
import sys
import warnings

import pytest

from bandit_gym.cli import main
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import build, try_run
from bandit_gym.experiments.trust import UntrustedError, check_trust, find_code
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.results.report import describe
from bandit_gym.results.results import load_results

ENV = {"env": "BernoulliBandit-v0", "num_arms": 3}
FIVE = {"name": "beta", "alpha": 5, "beta": 5}
SIZES = {"replications": 2, "horizon": 5, "block_size": 2}
OWN = """
from agents import Greedy, UniformRandom
from bandit_gym.priors import Beta

LAW = Beta(4.0, 4.0)

class Picky(UniformRandom):
    def __init__(self, problem, *, prior=None):
        super().__init__(problem)
        self.given = prior

class Plain(UniformRandom):
    pass
"""


def told(agent):
    """Return the experiment of one agent, and the agent as it is made."""
    experiment = Experiment([ENV], [agent], **SIZES)
    made, env = build(experiment.runs[0])
    env.close()
    return experiment, made


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_agents.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_agents", None)


@pytest.mark.parametrize("name", ["exact", "racing", "smc", "bayes_ucb", "greedy", "ucb1"])
def test_an_agent_is_told_the_prior_in_its_entry(name):
    experiment, agent = told({"agent": name, "prior": FIVE})
    assert agent.problem.prior == Beta(5.0, 5.0)
    assert experiment.agents[0].label == f"{name}, told beta(5, 5)"


def test_words_and_other_options_stay_the_agents_own():
    experiment, agent = told({"agent": "exact", "prior": "reference"})
    assert (agent.prior, agent.problem.prior) == ("reference", Beta(1.0, 1.0))
    assert experiment.agents[0].label == "exact(prior=reference)"
    experiment, agent = told({"agent": "racing", "delta": 0.2, "prior": FIVE})
    assert agent.delta == 0.2
    assert experiment.agents[0].label == "racing(delta=0.2), told beta(5, 5)"


def test_ones_own_prior_is_told_by_its_name(own):
    experiment, agent = told({"agent": "exact", "prior": "own_agents:LAW"})
    assert agent.problem.prior == Beta(4.0, 4.0)
    assert experiment.agents[0].label == "exact, told LAW"


def test_a_class_of_ones_own_that_takes_a_prior_is_given_it(own):
    _, picky = told({"agent": "own_agents:Picky", "prior": FIVE})
    assert (picky.given, picky.problem.prior) == (FIVE, Beta(1.0, 1.0))
    _, plain = told({"agent": "own_agents:Plain", "prior": FIVE})
    assert plain.problem.prior == Beta(5.0, 5.0)


def test_a_grid_of_priors_is_an_agent_each():
    cut = {"name": "truncated_normal", "mean": 0.5, "std": 0.1}
    experiment = Experiment([ENV], [{"agent": "exact", "grid": {"prior": [FIVE, cut]}}], **SIZES)
    labels = [entry.label for entry in experiment.agents]
    assert labels == ["exact, told beta(5, 5)", "exact, told truncated_normal(0.5, 0.1)"]
    agents = [build(run)[0] for run in experiment.runs]
    assert [agent.problem.prior for agent in agents] == [Beta(5, 5), TruncatedNormal(0.5, 0.1)]


def test_who_is_told_another_prior_has_a_stream_and_a_name_of_its_own():
    plain, other = Experiment([ENV], ["exact", {"agent": "exact", "prior": FIVE}], **SIZES).runs
    assert plain.name != other.name
    assert plain.agent_seed(0).spawn_key != other.agent_seed(0).spawn_key


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        ({"name": "bta"}, "the nearest known one is 'beta'"),
        ({"name": "normal", "mean": 0, "std": 1}, "prior must lie in [0, 1], where the means of"),
        ({"name": "beta", "alpha": [1, 1], "beta": 1}, "prior must have 3 values in its per-arm"),
        ("no_such_module:Law", "prior must be importable, got 'no_such_module:Law'"),
        (5, "prior must be a prior such as Beta(1, 1)"),
    ],
)
def test_what_cannot_be_told_is_said_before_the_run(prior, text):
    run = Experiment([ENV], [{"agent": "exact", "prior": prior}], **SIZES).runs[0]
    assert text in try_run(run)


def test_priors_nested_without_end_are_refused_in_a_sentence():
    prior = FIVE
    for _ in range(400):
        prior = {"name": "mixture", "components": [prior], "weights": [1]}
    with pytest.raises(ValueError, match="agent options must be at most 50 levels deep, got"):
        Experiment([ENV], [{"agent": "exact", "prior": prior}], **SIZES)
    with pytest.raises(ValueError, match="options must be at most 50 levels deep, got"):
        Entry("agents:ExactThompson", {"prior": prior}, "exact")


def test_nobody_is_warned_of_a_belief_that_was_asked_for():
    run = Experiment([ENV], [{"agent": "exact", "prior": FIVE}], **SIZES).runs[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert try_run(run) == ""


def test_stored_results_say_who_is_misspecified(tmp_path):
    same = {"agent": "smc", "prior": {"name": "beta", "alpha": 1, "beta": 1}}
    wrong = {"agent": "exact", "prior": FIVE, "label": "mine"}
    experiment = Experiment([ENV], ["random", same, wrong], **SIZES)
    run_experiment(experiment, tmp_path / "out", workers=Workers("serial"))
    text = describe(load_results(tmp_path / "out"))
    note = (
        "mine: misspecified, for it believes in the prior Beta(alpha=5.0, beta=5.0), where the "
        "environment's is Beta(alpha=1.0, beta=1.0)."
    )
    assert note in text
    assert text.count("misspecified") == 1
    assert "\nsmc, told beta(1, 1) " in text


def test_the_command_line_tells_priors_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    agents = [f"exact:prior={json.dumps(FIVE)}", f"racing:delta=0.2,prior={json.dumps(FIVE)}"]
    sizes = ["--replications", "2", "--horizon", "5", "--backend", "serial"]
    assert main(["compare", "--agents", *agents, *sizes]) == 0
    printed = capsys.readouterr().out
    assert "exact, told beta(5, 5)" in printed
    assert "racing(delta=0.2), told beta(5, 5)" in printed


def test_told_code_needs_trust(tmp_path, own, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mixture = {"name": "mixture", "components": ["own_agents:LAW"], "weights": [1]}
    for prior in ("own_agents:LAW", {"name": "own_agents:LAW"}, ["own_agents:LAW", FIVE], mixture):
        experiment = Experiment([ENV], [{"agent": "exact", "prior": prior}], **SIZES)
        path = tmp_path / "own_agents.py"
        assert [str(code) for code in find_code(experiment)] == [f"prior own_agents:LAW ({path})"]
        with pytest.raises(UntrustedError, match="prior own_agents:LAW"):
            check_trust(tmp_path / "out", experiment)
