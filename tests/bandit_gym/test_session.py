"""What a session has: worlds, and comparisons of its own code and objects."""

import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest
from documents import run as run_code
from fixed_instance import FIXED
from surface import curves_of

import agents
import bandit_gym as bg
from bandit_gym.experiments.entries import _digest_of
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Mixture, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem, ContextualProblem

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

class Plain:
    def __init__(self, num_arms, rng):
        self.num_arms, self.rng = num_arms, rng

    def act(self):
        return self.rng.integers(self.num_arms)

    def observe(self, arm, reward):
        pass

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


def run_session():
    """Return what a notebook has defined, in a module that nobody can import."""
    names = {"__name__": "__notebook__"}
    run_code(SESSION, names)
    return names


session = pytest.fixture(run_session)


@pytest.mark.nightly
def test_rules_that_see_features_are_compared_in_a_world_of_a_problem_with_them():
    problem = ContextualProblem(Gaussian(0.1), Normal(0.0, 1.0), 3, 2)
    workers = bg.Workers(num_workers=1)
    found = bg.compare(["exact", "lin_ucb"], env=problem, **SMALL, workers=workers)
    again = bg.compare(["exact", "lin_ucb"], env=problem, **SERIAL)
    curves = [curves_of(each, "exact").tolist() for each in (found, again)]
    assert curves[0] == curves[1] and curves_of(found, "exact").shape[0] == 4


def test_any_problem_is_made_an_environment():
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 1.0), 3)
    env, lanes = bg.make(problem, max_episode_steps=2), bg.make_vec(problem, 4, max_episode_steps=2)
    env.reset(seed=0), lanes.reset(seed=0)
    ends = [(env.step(0)[3], lanes.step([0] * 4)[3].tolist()) for _ in range(2)]
    assert ends == [(False, [False] * 4), (True, [True] * 4)]
    shown = bg.make(problem, observation="counts", max_episode_steps=2)
    assert shown.reset(seed=0)[0][-1] == 1 and shown.step(0)[0][-1] == 0.5  # of the time is left
    contextual = ContextualProblem(Gaussian(2.0), Normal(0.0, 1.0), 3, 6)
    env, lanes = bg.make(contextual, contexts="disjoint"), bg.make_vec(contextual, 4)
    assert env.reset(seed=0)[0].shape == (3, 6) and lanes.reset(seed=0)[0].shape == (4, 3, 6)


def test_agents_are_names_classes_functions_and_dicts_and_ours_draw_what_their_names_draw(session):
    env = {"env": "BernoulliBandit-v0", "num_arms": 3}
    kinds = {
        "name": "random",
        "class": agents.ExactThompson,
        "own class": session["Stubborn"],
        "own function": session["build"],
        "options": {"agent": session["Stubborn"], "arm": 0},
    }
    results = bg.compare(kinds, env=env, **SERIAL)
    assert results.table()["agent"].tolist() == [*kinds]
    assert not results.failed and not results.num_missing
    own = [curves_of(results, label).tolist() for label in ("own class", "own function", "options")]
    assert own[0] != own[1] != own[2]
    named = bg.compare(["exact", session["Stubborn"]], env=env, **SERIAL)
    assert named.table()["agent"].tolist() == ["exact", "Stubborn"]
    assert curves_of(results, "class").tolist() == curves_of(named, "exact").tolist()


class Coin(Bernoulli):
    """A likelihood of a user's own."""

    name = "coin"


def test_priors_are_objects_with_and_without_a_name_and_a_likelihood_is_one_too(session):
    environments = [
        {"env": "BernoulliBandit-v0", "prior": TruncatedNormal(0.5, 0.1)},
        {"env": "BernoulliBandit-v0", "prior": session["Squared"](3)},
        {"env": "BernoulliBandit-v0", "prior": Mixture((Beta(2.0, 8.0), Beta(8.0, 2.0)), (1, 1))},
        BanditProblem(Coin(), Beta(1.0, 1.0), 3),
        BanditProblem(Gaussian(0.5), Normal(0.0, 2.0), 4),
    ]
    results = bg.compare({"racing": "racing"}, env=environments, **SERIAL)
    assert not results.failed and not results.num_missing
    named, own, *_, gaussian = results.experiment.to_dict()["environments"]
    assert named["prior"]["name"] == "truncated_normal"
    labels = results.table()["env"].tolist()
    assert (labels[1], labels[3]) == ("BernoulliBandit-v0(prior=Squared)", "BanditProblem")
    assert (gaussian["num_arms"], gaussian["std"]) == (4, 0.5)


def test_own_objects_that_look_alike_are_told_apart(session):
    class Slotted:
        __slots__ = ("power",)

        def __init__(self, power):
            self.power = power

    def locked(power):
        return SimpleNamespace(power=power, lock=threading.Lock())

    def shifted(arm, *, by):
        def shift(*, step=by):
            return arm + step

        return shift

    pairs = [
        (partial(pow, 2), partial(pow, 3)),
        (shifted(0, by=1), shifted(0, by=2)),
        (Slotted(1), Slotted(2)),
        (locked(1), locked(2)),
    ]
    for first, second in pairs:
        assert _digest_of(first) != _digest_of(second)


def test_experiments_run_the_code_that_they_were_made_of(tmp_path):
    """Two classes of one source text, of which the second is made before the first is run."""

    def make_class(arm):
        members = {"act": lambda self: arm, "observe": lambda self, arm, reward: None}
        return type("Own", (), members)

    first, second = (bg.Experiment([FIXED], [make_class(arm)], 2, 3) for arm in (0, 2))
    for experiment, regret in ((first, 2.1), (second, 0.0)):
        found = bg.run_experiment(experiment, tmp_path / str(regret), workers=SERIAL["workers"])
        assert curves_of(found, "Own")[:, -1] == pytest.approx(regret)


def test_a_plain_class_plays_features_in_a_comparison():
    class First:
        def act(self, x):
            return int(x[:, 0].argmax())

        def observe(self, arm, reward, features):
            assert features[arm, 0] == features[:, 0].max()

    results = bg.compare([First, "random"], env="ContextualBandit-v0", **SERIAL)
    assert {*results.frame()["agent"]} == {"First", "random"}


@pytest.mark.nightly
def test_session_code_goes_to_workers_and_draws_the_same_there():
    code = SESSION + (
        f"import bandit_gym as bg; sizes = {SMALL}\n"
        "world = {'env': 'BernoulliBandit-v0', 'prior': Squared(2), 'num_arms': 4}\n"
        "for workers in (bg.Workers('serial'), bg.Workers('loky', 1)):\n"
        "    agents = [Stubborn, build, Plain, {'agent': 'racing', 'prior': Squared(3)}]\n"
        "    found = bg.compare(agents, env=world, workers=workers, **sizes)\n"
        "    print(found.frame().to_csv().encode(), str(found).count('is Squared'))\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    serial, parallel = done.stdout.splitlines()
    assert serial == parallel and serial.count("\\n") == 1 + 4 * 4 * 6 and serial.endswith(" 1")


@pytest.mark.nightly
def test_folder_keeps_a_digest_and_says_how_to_run_it_again(session, tmp_path):
    setting = {"agents": {"mine": session["Stubborn"]}, "out": tmp_path / "out", **SERIAL}
    first = bg.compare(**setting)
    assert session["Stubborn"].__name__ in (tmp_path / "out" / "experiment.json").read_text()
    again = bg.load_results(tmp_path / "out")
    assert curves_of(again, "mine").tolist() == curves_of(first, "mine").tolist()
    code = (
        "import pathlib, sys\nfrom bandit_gym.cli import main\n"
        "codes = [main(['resume', sys.argv[1], '--trust'])]\n"
        "for block in pathlib.Path(sys.argv[1]).glob('blocks/*/*.parquet'):\n"
        "    block.unlink()\n"
        "print(codes + [main(['resume', sys.argv[1], '--trust'])])\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[2, 2]", done
    assert done.stderr.count("Stubborn must be importable") == 2
    assert done.stderr.count("'module:Stubborn'") == 2


def test_folder_goes_on_when_the_cell_is_run_again(session, tmp_path):
    for number, known in enumerate((session, run_session())):
        sizes = SERIAL | {"replications": 4 + number}
        results = bg.compare({"mine": known["Stubborn"]}, out=tmp_path, **sizes)
    assert len(curves_of(results, "mine")) == 5
    assert len([*tmp_path.glob("blocks/*")]) == 1


def test_results_in_memory_can_be_saved(session, tmp_path):
    results = bg.compare({"exact": "exact", "mine": session["Stubborn"]}, **SERIAL)
    results.save(tmp_path / "kept")
    kept = bg.load_results(tmp_path / "kept")
    assert kept.experiment == results.experiment and not kept.damaged
    assert kept.frame().equals(results.frame()) and len(kept.frame()) == 2 * 4 * 6


def test_own_code_that_cannot_be_sent_is_refused(session):
    session["Squared"].lock = __import__("threading").Lock()
    env = {"env": "BernoulliBandit-v0", "prior": session["Squared"](2)}
    with pytest.raises(TypeError, match="Squared must be picklable"):
        bg.compare({"exact": "exact"}, env=env, **SERIAL)
