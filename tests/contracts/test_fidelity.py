"""How near agents come to exact Thompson sampling, and that whoever is wrong is told so."""

import hashlib
import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from refusals import check_refusals
from scipy import stats
from stub_agents import Constant
from surface import SERIAL, adversarial_verdict, cases_of, verdict_of

from agents.oracle import SAMPLING_TOLERANCE, action_probabilities, action_probabilities_with_error
from agents.posteriors.base import Posterior
from agents.rules.greedy import UniformRandom
from agents.rules.thompson import Thompson
from bandit_gym.cli import main
from bandit_gym.doubts import Doubt
from bandit_gym.experiments.execution import Workers
from bandit_gym.fidelity import describe_leaderboard, describe_verdicts, load_suite, run_suite
from bandit_gym.fidelity.benchmark import count_verdicts, draw_leaderboard
from bandit_gym.fidelity.suite import suite_file
from bandit_gym.fidelity.trial import list_rewards

CASE = "Bernoulli, Beta(5, 5)"
SMALL = {"only": CASE, "scale": 0.001, "workers": SERIAL}


def conjugate(problem, counts, sums, rng, size):
    """Draw from the posterior of Bernoulli arms."""
    prior = problem.prior
    shape = (size, problem.num_arms)
    return rng.beta(prior.alpha + sums, prior.beta + counts - sums, shape)


def uniform(problem, counts, sums, rng, size):
    """Draw all arms alike, whatever the data."""
    return rng.random((size, problem.num_arms))


def spoilt(problem, counts, sums, rng, size):
    """Return NaN once there are many data."""
    return np.full((size, problem.num_arms), np.nan if counts.sum() > 1000 else 0.5)


def spoiling(problem, counts, sums, rng, size):
    """Draw from the posterior, and then overwrite the data."""
    found = conjugate(problem, counts, sums, rng, size)
    counts[:] = sums[:] = 0
    return found


class First(Constant):
    """Plays the first arm."""

    def warm_start(self, counts, sums):
        pass


@pytest.fixture(scope="module")
def found():
    samplers = {"own": conjugate, "uniform": uniform, "spoilt": spoilt, "spoiling": spoiling}
    return run_suite(samplers | {"first": First}, **SMALL)


def row(found, agent, pulls):
    table = found.distances
    return table[(table["agent"] == agent) & (table["pulls"] == pulls)].iloc[0]


# -- The suite ----------------------------------------------------------------------------------


ANSWERS = "law", "error", "chains_distance"
DIGESTS = {
    "fidelity-v1": ("f5cfaa01ee97", "9234fefadc66"),
    "adversarial": ("4d7e05ee59f6", "600863047245"),
    "contextual-v1": ("16bfdfacb324", "a99efb4f8528"),
}
"""Of problems and histories, which never change, and of answers, which may become finer."""


def digest(cases):
    return hashlib.sha256(json.dumps(cases, sort_keys=True).encode()).hexdigest()[:12]


def test_suites_are_what_they_were_when_they_were_published():
    for name, expected in DIGESTS.items():
        cases = json.loads(suite_file(name).read_bytes())["cases"]
        problems = [{key: case[key] for key in case if key not in ANSWERS} for case in cases]
        answers = [[case.get(key) for key in ANSWERS] for case in cases]
        assert (digest(problems), digest(answers)) == expected, name


def test_stored_answers_agree_with_the_oracle():
    few = [case for case in cases_of("fidelity-v1").values() if len(case.probabilities) <= 10]
    kinds = [[c for c in few if c.kind == k] for k in ("conjugate", "truncated", "mixture", "rare")]
    for case in (case for cases in kinds for case in cases[::3]):
        law, error = action_probabilities_with_error(case.problem, case.counts, case.sums)
        # 1e-9: digits that another processor may round otherwise
        assert np.abs(law - case.probabilities).max() <= case.error + error + 1e-9, case.name


def test_stored_answers_of_dependent_arms_agree_with_a_long_chain():
    case = load_suite().only("Bernoulli, two arms opposed, 10 pulls").cases[0]
    tolerance = 5 * SAMPLING_TOLERANCE
    found = action_probabilities(case.problem, case.counts, case.sums, tolerance=tolerance)
    assert np.abs(found - case.probabilities).max() <= 2 * tolerance  # which is two standard errors


def test_stored_answers_of_shared_mixtures_are_the_oracles():
    cases = [case for case in cases_of("adversarial").values() if case.kind == "dependent"]
    shared = [case for case in cases if case.problem.offers("shared_components")]
    assert len(shared) == 7
    for case in shared:
        law, error = action_probabilities_with_error(case.problem, case.counts, case.sums)
        assert error <= 1e-6, case.name
        assert np.abs(law - case.probabilities).max() <= case.error + error + 1e-9, case.name


BEYOND = "Gaussian, rewards of 1e9, cut at 1", "Gaussian, one arm of 1e13, cut at 1"


def test_probabilities_of_hard_cases_are_the_oracles_wherever_it_answers():
    cases = [case for case in cases_of("adversarial").values() if case.kind == "independent"]
    for case in [case for case in cases if len(case.probabilities) <= 10][::2]:
        if len(set(zip(case.counts, case.sums, strict=True))) == 1:  # arms all alike
            alike = pytest.approx(1 / len(case.counts), abs=1e-6)
            assert case.probabilities == alike, case.name
        prior = getattr(case.problem.prior, "prior", case.problem.prior)  # some tell no more
        try:
            problem = replace(case.problem, prior=prior)
            law, error = action_probabilities_with_error(problem, case.counts, case.sums)
        except (RuntimeError, ValueError):
            # rewards far beyond the upper end: distances from it are exponential at rates in
            # proportion to the sums
            assert case.name in BEYOND
            law, error = case.sums / case.sums.sum(), 0.0
        # 1e-9: digits that another processor may round otherwise
        assert np.abs(law - case.probabilities).max() <= case.error + error + 1e-9, case.name


# -- Distances ----------------------------------------------------------------------------------


def test_samplers_of_the_posterior_are_within_noise(found):
    """Intervals of 95 % begin above 0 once in twenty cases, so that the noise itself is the bar."""
    for agent, pulls in product(("own", "spoiling"), (100, 10_000)):
        told = row(found, agent, pulls)
        assert told["tv"] <= told["floor"] + 4 * told["std"], agent


def test_whoever_is_wrong_is_as_far_as_the_two_probabilities_are(found):
    """The one who is spoilt returns ties, which are broken at random."""
    even, first = np.full(10, 0.1), np.eye(10)[0]
    right = cases_of("fidelity-v1")[f"{CASE}, 100 pulls"].probabilities
    for agent, law in {"uniform": even, "first": first, "spoilt": even}.items():
        truth = np.abs(right - law).sum() / 2
        far = row(found, agent, 100)
        assert 0 < far["low"] and abs(far["tv"] - truth) < 4 * far["std"], agent


def test_distances_are_counted_frequencies_over_a_noise_that_a_simulation_shows(found):
    """Of the agent that always plays the first arm the frequencies are known."""
    for case in load_suite().only(CASE).cases:
        told = row(found, "first", case.counts.sum())
        assert told["tv"] == pytest.approx(1 - case.probabilities[0])
        assert told["decisions"] == 1000
        draws = np.random.default_rng(1).multinomial(1000, case.probabilities, 4000) / 1000
        distances = np.abs(draws - case.probabilities).sum(axis=1) / 2
        assert abs(told["floor"] - distances.mean()) < 4 * stats.sem(distances) * 3**0.5
        assert told["excess"] == pytest.approx(told["tv"] - told["floor"])


def test_what_fails_in_a_case_is_told_there_and_the_rest_is_kept(found):
    assert row(found, "spoilt", 100)["status"] == "measured"
    failed = row(found, "spoilt", 10_000)
    assert failed["status"] == "failed"
    assert "the sampler returns must be finite numbers of shape (10, 10), got " in failed["words"]
    assert len(found.failures) == 1
    assert row(found, "own", 10_000)["status"] == "measured"


def test_numbers_depend_on_the_seed_alone_but_for_the_cost():
    one, again, other = (run_suite(["exact"], seed=s, **SMALL).distances for s in (1, 1, 2))
    cost = ["microseconds"]
    pd.testing.assert_frame_equal(one.drop(columns=cost), again.drop(columns=cost))
    assert not one["tv"].equals(other["tv"])


# -- Posteriors that learn from single rewards ---------------------------------------------------


class Tallies(Posterior):
    """Counts and sums again, but of single rewards as `learn` gets them."""

    has_exact_probabilities = True
    state_names = ("paid",)

    def __init__(self, problem):
        self.problem = problem

    def start(self, rng, num_lanes):
        self.paid = np.zeros((2, num_lanes, self.problem.num_arms))

    def learn(self, rng, lanes, arms, rewards):
        self.paid[0, lanes, arms] += rewards
        self.paid[1, lanes, arms] += 1 - rewards

    def update(self, rng, evidence):
        np.testing.assert_array_equal(self.paid.sum(axis=0), evidence.counts)

    def sample(self, rng):
        prior = self.problem.prior
        return rng.beta(prior.alpha + self.paid[0], prior.beta + self.paid[1])


def learner(problem):
    return Thompson(problem, posterior=Tallies(problem))


def test_a_posterior_that_learns_from_single_rewards_is_given_those_of_bernoulli_cases():
    found = run_suite({"learner": learner}, only=f"{CASE}, ", scale=0.1, workers=SERIAL)
    distances = found.distances
    assert distances["verdict"].tolist() == ["right"] * 2
    assert distances["pulls"].tolist() == [100, 10_000] and found.left_out == ()


class TakesTotals(UniformRandom):
    """It learns from single rewards, and takes totals by a way of its own."""

    def _learn(self, lanes, actions, rewards):
        raise AssertionError("no single reward is known of these cases")

    def warm_start(self, counts, sums, **options):
        super().warm_start(counts, sums, **options)


def test_an_agent_with_a_warm_start_of_its_own_is_given_the_totals_of_any_case():
    only = "Gaussian, N(0, 1), 1"
    found = run_suite({"totals": TakesTotals}, only=only, scale=0.001, workers=SERIAL)
    assert set(found.distances["status"]) == {"measured"} and found.left_out == ()


def test_rewards_of_a_case_have_its_counts_and_sums_in_the_same_order_each_time():
    case = load_suite().only(f"{CASE}, 100 pulls").cases[0]
    (arms, rewards), again = list_rewards(case), list_rewards(case)
    np.testing.assert_array_equal(np.bincount(arms, minlength=10), case.counts)
    np.testing.assert_array_equal(np.bincount(arms, rewards, 10), case.sums)
    np.testing.assert_array_equal([arms, rewards], again)
    assert (np.diff(arms) < 0).any()  # mixed


def test_the_recipe_of_an_ensemble_decides_and_cases_that_it_cannot_be_given_are_said_once():
    agents = {"ensemble": {"agent": "thompson", "posterior": "ensemble:Ensemble"}}
    for only, num_decided, num_left_out in [("spike and slab, 50 ", 1, 0), ("N(1, 0.3) cut", 1, 2)]:
        found = run_suite(agents, only=only, scale=0.001, workers=SERIAL)
        assert found.distances["status"].tolist() == ["measured"] * num_decided
        start = f"ensemble was left out of {num_left_out} cases: it learns from single rewards"
        assert [line[: len(start)] for line in found.left_out] == [start] * (num_left_out > 0)


def test_where_all_cases_are_left_out_that_is_an_error():
    with pytest.raises(ValueError, match="agents must be some that can be given a case, got 'lear"):
        run_suite({"learner": learner}, only="Gaussian, N(0, 1), 1", scale=0.001, workers=SERIAL)


# -- The leaderboard ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What is written of two agents, and of a sampler that fails in one of three cases."""
    agents = {"exact": "exact", "random": "random", "spoilt": spoilt}
    found = run_suite(agents, **SMALL | {"only": "Gaussian, N(0, 1), "})
    folder = tmp_path_factory.mktemp("written")
    names = ["distances.parquet", "leaderboard.csv", "leaderboard.png"]
    assert [path.name for path in found.write(folder)] == names
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "distances.parquet"), found.distances)
    return folder


def test_leaderboard_is_what_its_own_tables_say(written):
    distances = pd.read_parquet(written / "distances.parquet")
    board = pd.read_csv(written / "leaderboard.csv").set_index("agent")
    assert board.index.tolist() == ["exact", "random", "spoilt"]  # it decides in fewer
    for agent, told in board.iterrows():
        cases = distances[distances["agent"] == agent]
        made = cases[cases["status"] == "measured"]
        assert (told["decided"], told["cases"]) == (2 if agent == "spoilt" else 3, 3)
        assert len(made) == told["decided"]
        assert told["excess"] == pytest.approx(made["excess"].mean())
        noise = 1.96 * np.sqrt((made["std"] ** 2).sum()) / len(made)
        assert told["excess_low"] == pytest.approx(told["excess"] - noise)
        assert told["excess_high"] >= told["excess"] + noise - 1e-12
        worst = made.sort_values("excess").iloc[-1]
        assert told["worst"] == pytest.approx(worst["excess"])
        assert told["worst_case"] == worst["case"]
        assert told["microseconds"] == pytest.approx(made["microseconds"].median())


def test_where_nobody_decides_there_is_a_board_and_a_picture_all_the_same(tmp_path):
    found = run_suite({"none": fail}, only=f"{CASE}, 100", scale=0.001, workers=SERIAL)
    assert found.failures == [f"none failed in {CASE}, 100 pulls: OSError: no disk"]
    found.write(tmp_path)
    board = pd.read_csv(tmp_path / "leaderboard.csv")
    assert board["decided"].tolist() == [0] and board["microseconds"].isna().all()


def fail(problem, counts, sums, rng, size):
    raise OSError("no disk")


def test_the_legend_has_each_agent_also_one_that_begins_with_an_underscore():
    agents = ["_mine", "$a$_$b$", "exact"]
    excess = {"excess_low": 0.0, "excess": 0.1, "excess_high": 0.2}
    board = pd.DataFrame({"agent": agents, "decided": 1, "microseconds": [1, 2, 3], **excess})
    [legend] = draw_leaderboard(board).legends
    assert [text.get_text() for text in legend.get_texts()] == agents


# -- What agents say of themselves --------------------------------------------------------------


FINITE = "must be finite numbers of shape (10, 10), got "
NO_SAMPLES = {
    "shape": (np.full((2, 4), 0.5), FINITE),
    "support": (np.full((10, 10), 1.5), "must lie in the support of the prior, got 1.5."),
    "complex": (np.full((10, 10), 0.5 + 0.1j), FINITE),
    "text": ("means", FINITE + "'means'."),
    "none": (None, "must"),
}


def test_what_is_no_sample_is_told_in_a_sentence():
    for name, (returned, words) in NO_SAMPLES.items():

        def draw(problem, counts, sums, rng, size, told=returned):
            return told

        found = run_suite({"draw": draw}, only=f"{CASE}, 100 pulls", scale=0.001, workers=SERIAL)
        assert f"what the sampler returns {words}" in found.distances["words"].item(), name


class Flagging(First):
    """Says nothing wrong, in the type that is asked for."""

    flags = np.zeros(1)
    num_particles = 0

    def diagnostics(self):
        return {"is_unreliable": self.flags}


class FlagsInts(Flagging):
    flags = np.ones(1, dtype=int)


class FlagsNothing(Flagging):
    flags = np.full(1, np.nan)


class FlagsTexts(Flagging):
    flags = np.array(["no"])


class KeepsLess(Flagging):
    num_particles = -3

    def action_probabilities(self):
        return np.zeros((1, 1))


def test_flags_are_read_as_numbers_and_what_is_none_fails_in_its_row():
    """Flags that were ints once indexed decisions, and those that were floats ended the suite."""
    agents = {each.__name__: each for each in (FlagsInts, FlagsNothing, FlagsTexts, KeepsLess)}
    found = run_suite(agents, only=f"{CASE}, 100 pulls", scale=0.01, workers=SERIAL).distances
    assert found["verdict"].tolist() == ["flagged", "WRONG", "WRONG", "WRONG"]
    words = found["words"].tolist()
    assert "FlagsNothing.diagnostics()['is_unreliable'] must have no NaN" in words[1]
    assert "FlagsTexts.diagnostics()['is_unreliable'] must be numbers" in words[2]
    assert "KeepsLess.num_particles must be a non-negative integer, got -3" in words[3]


def test_a_sampler_is_refused_where_arms_have_features():
    few = {"suite": "contextual-v1", "only": "Bernoulli, d = 2, 10 rows"}
    found = run_suite({"draw": conjugate}, **few, scale=0.01, workers=SERIAL)
    words = found.distances["words"].item()
    assert "be agents or posteriors where arms have features, got 'draw'" in words


# -- Verdicts on hard cases ---------------------------------------------------------------------

HARD = (
    "Bernoulli, rare camp, density only",
    "Bernoulli, comb of 9 teeth",
    "Bernoulli, bathtub Beta(0.1, 0.1)",
    "Bernoulli, cut at 0.2",
    "exponential, rare camp",
    "Gaussian, vague prior",
    "Gaussian, rewards of 1e9, cut at 1",
    "Gaussian, noise of 1e-6, near-duplicates",
    "Poisson, nothing ever",
    "Bernoulli, rare camp of all arms",
    "Bernoulli, near-singular, 1e6 pulls",
)


AGENTS = "exact racing racing_paper smc_paper"
OF_PARTICLES = HARD[1], HARD[5], HARD[9]
"""Cases for `smc`, which is dear: the first of them each day, the others by night."""


@pytest.mark.parametrize(
    ("name", "agents"),
    [
        *((name, AGENTS) for name in HARD),
        (OF_PARTICLES[0], "smc"),
        *(pytest.param(name, "smc", marks=pytest.mark.nightly) for name in OF_PARTICLES[1:]),
    ],
)
def test_an_agent_is_right_or_says_that_it_is_not(name, agents):
    verdicts = {agent: adversarial_verdict(agent, name) for agent in agents.split()}
    assert set(verdicts.values()) <= {"right", "flagged", "refused"}, verdicts


TRUTH = np.array([0.85, 0.15])
NUMBERS = np.arange(1000)
FIRST = NUMBERS < 300
NONE, ALL = np.zeros(1000, dtype=bool), np.ones(1000, dtype=bool)


VERDICTS = {
    "right": (NONE, NONE, "right"),
    "right in doubt": (NONE, ALL, "right"),
    "wrong": (FIRST, NONE, "WRONG"),
    "those flagged": (FIRST, FIRST, "flagged"),  # those in silence are right
    "nine in ten": (FIRST, NUMBERS >= 100, "flagged"),  # though the others are wrong
    "fewer": (FIRST, NUMBERS >= 101, "WRONG"),
}


def test_verdicts_follow_from_distances_and_flags():
    """Wrong decisions take the second arm; of the others 15 % do, as is right."""
    for name, (is_wrong, is_flagged, verdict) in VERDICTS.items():
        arms = (is_wrong | (NUMBERS % 20 < 3)).astype(int)
        for distances in (None, 0.85 * is_wrong):
            assert verdict_of(arms, is_flagged, TRUTH, distances) == verdict, name


def test_runs_that_are_wrong_by_turns_are_wrong_though_their_average_is_right():
    arms = (NUMBERS >= 850).astype(int)
    assert verdict_of(arms, NONE, TRUTH) == "right"
    assert verdict_of(arms, NONE, TRUTH, lane_distances=1 - TRUTH[arms]) == "WRONG"


def test_flags_in_vain_are_counted_apart():
    verdicts = "right", "right", "right", "flagged", "refused", "WRONG"
    flagged = 0.0, 0.89, 0.9, 1.0, np.nan, 0.0
    rows = pd.DataFrame({"agent": "mine", "verdict": verdicts, "flagged": flagged})
    assert count_verdicts(rows).loc["mine"].tolist() == [2, 1, 1, 1, 1]


class Doubting(First):
    """Plays the first arm, and doubts every other of its decisions."""

    def diagnostics(self):
        reasons = int(Doubt.PARTICLES_COLLAPSED | Doubt.RACE_CAPPED)
        return {"doubts": np.arange(self.num_envs) % 2 * reasons}


def test_reasons_stand_beside_the_share_of_decisions_that_are_flagged():
    only = f"{CASE}, 100 pulls"
    found = run_suite({"doubting": Doubting}, only=only, scale=0.001, workers=SERIAL)
    assert found.distances["flagged"].item() == 0.5
    words = "race capped, particles collapsed"
    assert f"50.0%: {words} " in describe_leaderboard(found.leaderboard())
    assert f", 50% flagged: {words}" in describe_verdicts(found.distances)


# -- Bad calls ----------------------------------------------------------------------------------


def draw(problem, counts, sums, rng, size, level=0.5):
    return rng.random((size, 2))


NO_OPTION = "options of draw must have no keys but 'level', "
BAD_ARGUMENTS = [
    ({"scale": 0}, "scale must be"),
    ({"seed": -1}, "seed must be"),
    ({"suite": "fidelity-v0"}, "suite must be", "nearest known one is 'fidelity-v1'"),
    ({"suite": ["x"]}, "suite must be one of", "got ['x']"),
    ({"only": "nothing like it"}, "only must be part of a case's name in fidelity-v1"),
    ({"agents": []}, "agents must have at least one entry"),
    ({"agents": [3]}, "agent must be a name"),
    ({"agents": [{"agent": draw, "size": 3}]}, NO_OPTION),  # which it is given
    ({"agents": [{"agent": draw, "nope": 3}]}, NO_OPTION),
]


def test_bad_arguments_are_refused():
    check_refusals(lambda given: run_suite(**{"agents": ["exact"]} | SMALL | given), BAD_ARGUMENTS)


# -- The command --------------------------------------------------------------------------------


OTHERS = """
import os, sys

def draw(problem, counts, sums, rng, size):
    return rng.random((size, 2))

class Quits:
    def __init__(self, problem):
        sys.exit(0)

    def reset(self, num_envs=None, seed=None): ...
    def act(self, observation=None): ...
    def observe(self, action, reward, mask=None): ...

class Dies(Quits):
    def __init__(self, problem):
        os._exit(0)
"""


STARTS = {
    "draw": "ValueError: what the sampler returns must be finite numbers of shape (10, 10)",
    "Quits": "SystemExit: 0",
    "Dies": "WorkerDied: ",
}


@pytest.mark.parametrize(
    ("backend", "names"),
    [("serial", ["draw", "Quits"]), pytest.param("loky", [*STARTS], marks=pytest.mark.nightly)],
)
def test_command_keeps_what_others_found_and_exits_1(backend, names, tmp_path, monkeypatch, capsys):
    (tmp_path / "bad_agents.py").write_text(OTHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Workers.__init__, "__defaults__", (backend, None, None))
    bad = [f"bad_agents:{name}" for name in names]
    options = ["--only", "Beta(5, 5), 100 pulls", "--scale", "0.001", "--workers", "1"]
    assert main(["fidelity", "--agents", "exact", *bad, *options, "--out", "new"]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("1 of 1") == 1 and printed.out.count("0 of 1") == len(names)
    for name in names:
        words = f"{name} failed in Bernoulli, Beta(5, 5), 100 pulls: {STARTS[name]}"
        assert words in printed.err
    table = pd.read_parquet(tmp_path / "new" / "distances.parquet")
    assert table["status"].tolist() == ["measured", *["failed"] * len(names)]


@pytest.mark.parametrize(
    ("agents", "only", "code", "words"),
    [
        ("exact:prior=reference", "sure prior", 1, "WRONG: exact(prior=reference) in Bernoulli, "),
        ("exact racing", "Gaussian, vague prior, density only", 0, " refused  right "),
    ],
)
def test_command_tells_verdicts(agents, only, code, words, tmp_path, capsys, monkeypatch):
    """It exits with 1 where one is wrong."""
    monkeypatch.setattr(Workers.__init__, "__defaults__", ("serial", None, None))
    options = ["--suite", "adversarial", "--only", only, "--scale", "0.05"]
    named = ["--agents", *agents.split()]
    assert main(["fidelity", *named, *options, "--out", str(tmp_path)]) == code
    assert words in capsys.readouterr().out
    table = pd.read_parquet(tmp_path / "distances.parquet")
    assert ("WRONG" in table["verdict"].tolist()) == bool(code)
