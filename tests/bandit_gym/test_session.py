"""What a session has: worlds, and comparisons of its own code and objects."""

import subprocess
import sys
import warnings

import pytest
from documents import run as run_code

import agents
import bandit_gym as bg
from bandit_gym.experiments.packed import is_packed
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

SESSION = """
import numpy as np
from agents import Agent

FIRST = 1

class Stubborn(Agent):
    def __init__(self, problem, *, arm=FIRST):
        super().__init__(problem)
        self.arm = arm

    def _choose(self):
        return np.full(self.num_lanes, self.arm)

def build(problem):
    return Stubborn(problem, arm=2)

class Squared:
    def __init__(self, power):
        self.power = power

    def sample(self, rng, shape):
        return rng.random(shape) ** (1 / self.power)

    def log_density(self, means):
        return ((self.power - 1) * np.log(means)).sum(axis=-1)
"""
SMALL = {"replications": 4, "horizon": 6, "block_size": 2, "progress": False}
SERIAL = SMALL | {"workers": bg.Workers("serial")}


@pytest.fixture
def session():
    """What a notebook has defined, in a module that nobody can import."""
    names = {"__name__": "__notebook__"}
    run_code(SESSION, names)
    return names


def regrets(results):
    return {found.run.agent.label: found.final("pseudo_regret") for found in results.runs}


def test_made_worlds_are_those_of_gymnasium():
    env = bg.make("BernoulliBandit-v0", num_arms=3)
    assert env.unwrapped.problem.num_arms == 3 and env.spec.max_episode_steps == 1000
    assert bg.make_vec("BernoulliBandit-v0", 5, num_arms=3).num_envs == 5


def test_any_problem_is_made_a_world():
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 1.0), 3)
    env, lanes = bg.make(problem, max_episode_steps=2), bg.make_vec(problem, 4, max_episode_steps=2)
    env.reset(seed=0), lanes.reset(seed=0)
    ends = [(env.step(0)[3], lanes.step([0] * 4)[3].tolist()) for _ in range(2)]
    assert ends == [(False, [False] * 4), (True, [True] * 4)]
    with pytest.raises(TypeError, match="env must be an id or a BanditProblem"):
        bg.make(7)


def test_agents_are_names_classes_functions_and_dicts(session):
    kinds = {
        "name": "exact",
        "class": agents.UniformRandom,
        "own class": session["Stubborn"],
        "own function": session["build"],
        "options": {"agent": session["Stubborn"], "arm": 0},
    }
    results = bg.compare(kinds, env={"env": "BernoulliBandit-v0", "num_arms": 3}, **SERIAL)
    assert results.table()["agent"].tolist() == [*kinds]
    assert not results.failed and not results.num_missing
    curves = {label: {*values} for label, values in regrets(results).items()}
    assert curves["own class"] != curves["own function"] != curves["options"]


def test_class_of_ours_draws_what_its_name_draws():
    results = bg.compare({"class": agents.ExactThompson}, **SERIAL)
    named = bg.compare({"name": "exact"}, **SERIAL)
    assert regrets(results)["class"].tolist() == regrets(named)["name"].tolist()
    assert results.experiment.agents[0].target == "agents:ExactThompson"


def test_list_of_agents_has_labels_of_its_own(session):
    results = bg.compare(["exact", session["Stubborn"]], **SERIAL)
    assert [found.run.agent.label for found in results.runs] == ["exact", "Stubborn"]


def test_priors_are_objects_with_and_without_a_name(session):
    worlds = [
        {"env": "BernoulliBandit-v0", "prior": TruncatedNormal(0.5, 0.1)},
        {"env": "BernoulliBandit-v0", "prior": session["Squared"](3)},
        {"env": "BernoulliBandit-v0", "prior": Mixture((Beta(2.0, 8.0), Beta(8.0, 2.0)), (1, 1))},
        BanditProblem(Gaussian(0.5), Normal(0.0, 2.0), 4),
    ]
    results = bg.compare({"racing": "racing"}, env=worlds, **SERIAL)
    assert not results.failed and not results.num_missing
    named, own, *_, gaussian = results.experiment.environments
    assert named.options["prior"] == {"name": "truncated_normal"} | named.options["prior"]
    assert is_packed(own.options["prior"]["name"])
    assert own.label == "BernoulliBandit-v0(prior=Squared)"
    assert (gaussian.options["num_arms"], gaussian.options["std"]) == (4, 0.5)


def test_problem_with_a_likelihood_of_ones_own_is_a_world(session):
    class Coin(Bernoulli):
        name = "coin"

    problem = BanditProblem(Coin(), Beta(1.0, 1.0), 3)
    results = bg.compare({"own": session["Stubborn"]}, env=problem, **SERIAL)
    assert not results.failed and results.table()["env"].tolist() == ["BanditProblem"]


def test_session_code_goes_to_workers_and_draws_the_same_there():
    code = SESSION + (
        "import bandit_gym as bg\n"
        "world = {'env': 'BernoulliBandit-v0', 'prior': Squared(2), 'num_arms': 4}\n"
        "for workers in (bg.Workers('serial'), bg.Workers('loky', 2)):\n"
        "    found = bg.compare({'mine': Stubborn, 'exact': build}, env=world, replications=8,\n"
        "        horizon=5, block_size=1, progress=False, workers=workers)\n"
        "    processes = {b.receipt['process'] for run in found.runs for b in run.blocks}\n"
        "    print(len(processes), found.frame()['pseudo_regret'].tolist())\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (_, serial), (num_processes, parallel) = (
        line.split(" ", 1) for line in done.stdout.splitlines()
    )
    assert serial == parallel and int(num_processes) >= 1


def test_folder_keeps_a_digest_and_says_how_to_run_it_again(session, tmp_path):
    setting = {"agents": {"mine": session["Stubborn"]}, "out": tmp_path / "out", **SERIAL}
    with pytest.warns(UserWarning, match=r"importable .* got \['Stubborn'\]; .* into a module"):
        first = bg.compare(**setting)
    assert session["Stubborn"].__name__ in (tmp_path / "out" / "experiment.json").read_text()
    again = bg.load_results(tmp_path / "out")
    assert regrets(again)["mine"].tolist() == regrets(first)["mine"].tolist()
    code = "import bandit_gym as bg, sys\nfrom bandit_gym.cli import main\n"
    code += f"sys.exit(main(['resume', {str(tmp_path / 'out')!r}, '--trust']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # all is there
    for receipt in (tmp_path / "out").glob("receipts/*/*.json"):
        receipt.unlink()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Stubborn must be importable" in done.stderr and "'module:Stubborn'" in done.stderr


def test_folder_goes_on_with_what_has_not_changed(session, tmp_path):
    names = {"__name__": "__notebook__"}
    run_code(SESSION, names)  # the cell is run again
    for number, known in enumerate((session, names)):
        with pytest.warns(UserWarning):
            results = bg.compare(
                {"mine": known["Stubborn"]}, out=tmp_path, **SERIAL | {"replications": 4 + number}
            )
    assert len(results.runs[0].replications) == 5
    assert len([*tmp_path.glob("blocks/*")]) == 1


def test_names_alone_are_stored_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = bg.compare({"exact": "exact"}, out=tmp_path / "out", **SERIAL)
    assert repr(results).startswith("compare({'exact': 'exact'}, env='BernoulliBandit-v0'")


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"agents": {"a": 7}}, TypeError, "agent must be a name, a class, a function"),
        ({"agents": "exact"}, TypeError, "agents must be a dict of labels and agents, or a list"),
        ({"agents": {"a": "exat"}}, ValueError, "nearest known one is 'exact'"),
        ({"agents": {"a": {"option": 1}}}, TypeError, "agent must be a name"),
        ({"agents": {"a": dict}}, TypeError, "agent must be a class with methods reset, act"),
        ({"agents": {"": "exact"}}, ValueError, "label"),
        ({"agents": {}}, ValueError, "agents must have at least one entry"),
        ({"agents": ["exact"], "env": 7}, TypeError, "env must be an id, a BanditProblem"),
        ({"agents": ["exact"], "env": "Bernouli-v0"}, ValueError, "env must be"),
        ({"agents": ["exact"], "replication": 3}, ValueError, "'replications'"),
        ({"agents": ["exact"], "workers": 2}, TypeError, "workers must be a Workers"),
        ({"agents": [lambda problem: problem]}, ValueError, "must be able to play"),
    ],
)
def test_bad_calls_are_one_sentence(settings, error, text):
    with pytest.raises(error, match=text):
        bg.compare(**SERIAL | settings)


def test_own_code_that_cannot_be_sent_is_refused(session):
    session["Squared"].lock = __import__("threading").Lock()
    env = {"env": "BernoulliBandit-v0", "prior": session["Squared"](2)}
    with pytest.raises(TypeError, match="Squared must be picklable"):
        bg.compare({"exact": "exact"}, env=env, **SERIAL)


def test_agent_of_a_session_that_raises_is_told_like_any_other(session):
    def broken(problem):
        raise RuntimeError("I have had enough")

    with pytest.raises(ValueError, match="broken .* got RuntimeError: I have had enough"):
        bg.compare([broken], **SERIAL)


@pytest.mark.parametrize("make", [bg.make, bg.make_vec])
@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("NoSuchBandit-v0", "env must be an id that gymnasium.make takes, got 'NoSuch.*exist.$"),
        ("", "env must be an id that gymnasium.make takes, got '';"),
        (5, "env must be an id or a BanditProblem, got 5.$"),
    ],
)
def test_what_is_no_world_is_one_sentence(make, env, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make(env)


def test_steps_and_progress_are_checked():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    with pytest.raises(TypeError, match="max_episode_steps must be"):
        bg.make(problem, max_episode_steps=2.5)
    with pytest.raises(TypeError, match="progress must be a bool, got 'no'"):
        bg.compare(["random"], progress="no")
