"""The matrix of claims and readings: when a cell is settled, and by what."""

import numpy as np
import pytest
import readings
from pages.command import Task
from paper import claims, matrix, measures, races, settings
from paper.claims import Claim
from paper.deciding import FAILS, HOLDS, UNDECIDED, Measure, share_interval, skewed_interval
from paper.readings import READINGS, Reading
from paper.trials import Trial

from agents.racing.stopping import threshold_function
from bandit_gym.experiments.execution import Workers
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PLAIN = Reading("matched")
WORLD = {"env": "BernoulliBandit-v0", "num_arms": 3, "label": "three arms"}


@pytest.mark.parametrize("sign", [1, -1])
def test_claim_at_its_limit_is_settled_no_more_often_than_the_level_allows(sign):
    """Skewed values whose mean is the limit: three looks, any verdict is wrong."""
    rng, level, count = np.random.default_rng(0), 0.05, 1500
    wrong = 0
    for values in sign * (rng.gamma(4.0, size=(count, 64)) - 4.0):
        looks = (Measure(values[:n], low=0.0).verdict(level / 3) for n in (16, 32, 64))
        wrong += any(verdict != UNDECIDED for verdict in looks)
    assert wrong / count <= level + 3 * np.sqrt(level * (1 - level) / count)


@pytest.mark.parametrize(("mean", "verdict"), [(1.0, HOLDS), (-1.0, FAILS)])
def test_claim_that_is_far_from_its_limit_is_settled_at_the_level_of_a_cell(mean, verdict):
    """One standard deviation is 8 standard errors of 64, where the level asks for about 5."""
    values = np.random.default_rng(0).normal(mean, size=64)
    assert Measure(values, low=0.0).verdict(2e-5) == verdict


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.0, HOLDS), (1.9, UNDECIDED), (5.0, FAILS), (-5.0, FAILS)]
)
def test_claim_between_two_limits_needs_both(mean, verdict):
    values = np.random.default_rng(0).normal(mean, size=100)
    assert Measure(values, low=-2.0, high=2.0).verdict(0.001) == verdict


def test_limit_that_is_paired_with_the_values_is_taken_with_its_noise():
    """Values follow their limit closely: apart, neither could be told from the other."""
    rng = np.random.default_rng(0)
    limit = rng.normal(0.0, 10.0, size=50)
    assert Measure(limit + rng.normal(0.5, 0.1, size=50), low=limit).verdict(0.001) == HOLDS


def test_few_values_settle_nothing_and_one_that_was_worked_out_does():
    assert Measure(np.arange(15.0) + 100, low=0.0).verdict(0.05) == UNDECIDED
    assert Measure(np.full(15, 1.0), high=2.0).verdict(0.05) == UNDECIDED
    assert Measure(np.full(16, 1.0), high=2.0).verdict(0.05) == HOLDS
    assert Measure(np.full(1, 1.0), high=2.0).verdict(0.05) == HOLDS


def test_quantity_that_is_exactly_its_limit_does_not_lie_beyond_it():
    """No fewer samples at another delta: "more" is then wrong, and no matter of chance."""
    assert Measure(np.zeros(20), low=0.0).verdict(0.05) == FAILS


def test_interval_of_symmetric_values_is_students():
    values = np.arange(-10.0, 11.0)
    found = skewed_interval(values, 0.05)
    half = 2.0859634472658364 * np.sqrt(38.5 / 21)  # t quantile with 20 degrees; variance 38.5
    assert found == pytest.approx((0.0, -half, half))


def test_interval_of_values_skewed_to_the_right_reaches_farther_there():
    estimate, low, high = skewed_interval(np.random.default_rng(0).exponential(size=50), 0.01)
    assert high - estimate > 1.2 * (estimate - low)


def test_interval_of_a_share_that_never_happened_is_clopper_and_pearsons():
    """None of n: the upper end p has (1 - p)^n = level / 2."""
    assert share_interval(np.zeros(30), 0.05) == pytest.approx((0.0, 0.0, 1 - 0.025 ** (1 / 30)))
    assert share_interval(np.ones(30), 0.05) == pytest.approx((1.0, 0.025 ** (1 / 30), 1.0))


class Stub:
    """A source of numbers about a mean, of which each look has 20 more."""

    def __init__(self, means, pilot=12.0):
        self.means, self.found, self.looks = means, pilot, []

    def sample(self, task, look):
        self.looks.append(look)
        return np.random.default_rng(0).normal(self.means[look], size=20 * look)

    def pilot(self, task, reading):
        if isinstance(self.found, ValueError):
            raise self.found
        return self.found


def settle(source, reading=PLAIN, **options):
    measure = {"measure": lambda sample, reading: Measure(sample, low=0.0)}
    claim = Claim("so", "a mean", source, **measure | options)
    return matrix.settle(claim, reading, Task({}, None, Workers("serial")), 0.001)


def test_cell_stops_at_the_look_that_settles_it():
    source = Stub({1: 0.0, 2: 5.0, 4: 5.0})
    cell = settle(source)
    assert (cell.verdict, cell.count, source.looks) == (HOLDS, 40, [1, 2])


def test_cell_is_undecided_after_the_last_look():
    source = Stub({1: 0.0, 2: 0.0, 4: 0.0})
    assert (settle(source).verdict, source.looks) == (UNDECIDED, list(matrix.LOOKS))


def test_cell_where_the_claim_reads_nothing_is_not_applicable_and_is_not_run():
    source = Stub({})
    cell = settle(source, refusal=lambda reading: "it has no such thing")
    assert (cell.verdict, str(cell), source.looks) == ("not applicable", "–", [])


def test_cell_shows_a_limit_that_is_drawn_with_it():
    def measure(sample, reading):
        return Measure(sample, low=np.full(len(sample), 0.25), high=np.full(len(sample), 9.0))

    assert str(settle(Stub({1: 5.0}), measure=measure)).endswith("n = 20, limit 0.25 and 9")


def test_cell_of_few_clusters_has_no_interval():
    cell = matrix.Cell(UNDECIDED, skewed_interval(np.arange(4.0), 0.05), 4)
    assert str(cell) == "**undecided** 1.5 (no interval below 16, n = 4)"


def test_cell_without_a_known_supremum_is_not_applicable():
    source = Stub({}, pilot=ValueError("scale must be 'value' or 'weight'"))
    cell = settle(source, Reading("matched", "printed", "supremum"))
    assert (cell.verdict, cell.words) == ("not applicable", matrix.NO_SUPREMUM)


def test_other_refusals_of_an_agent_are_no_cells():
    with pytest.raises(ValueError, match="something else"):
        settle(Stub({}, pilot=ValueError("something else")))


def test_cell_whose_races_are_long_is_too_dear_and_says_how_long_they_are():
    source = Stub({}, pilot=12_345.0)
    cell = settle(source)
    assert (cell.verdict, source.looks) == ("too dear", [])
    assert str(cell) == "too dear: 12,345 samples a decision or more, 3.1 s for 1,000"


def test_every_reading_is_another_agent():
    problem = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
    agents = [reading.make(problem, **reading.options()) for reading in READINGS]
    settings_of = {(type(a), a.proposal, a.stopping) for a in agents}
    assert len(settings_of) == len({reading.name for reading in READINGS}) == 20


@pytest.mark.parametrize("divisor", ["printed", "draws"])
def test_race_divides_by_its_draws_or_by_one_more(divisor):
    """All d draws have the weight 1 and the same winner, so that its average is e^eps d / m."""
    reading = Reading("reference", "printed", "weight", divisor)
    agent = reading.make(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), **reading.options())
    agent.reset(50, seed=0)
    agent.warm_start([1000, 1000], [1000, 0])
    race = agent.race()
    d = np.arange(1, 500)
    m = d if divisor == "draws" else d + 1
    averages = np.exp(race.gumbels[:, :1]) * d / m
    ends = d[(averages > 2 * threshold_function("printed", m, 0.1) - 0.1).argmax(axis=1)]
    assert race.num_samples.tolist() == ends.tolist()
    assert 1 < np.median(ends) < ends.max()


def test_self_normalised_stop_is_asked_nothing_that_it_does_not_read():
    rows = [*claims.table_2_claims(), *claims.theorem_1_claims()]
    applicable = [claim.sentence for claim in rows if not claim.refusal(PLAIN)]
    assert len(applicable) == 2 and all("the smaller δ" in sentence for sentence in applicable)


def test_paper_regrets_rise_more_along_sigma_than_along_delta():
    """By hand, from Table 2: 8.75 and 1.43 of an average of 23.694."""
    effects = [claims._paper_effect(axis) for axis in (1, 0)]
    assert effects == pytest.approx([8.75 / 23.694, 1.425 / 23.694], rel=1e-3)


@pytest.fixture
def task(tmp_path):
    return Task({"batches": 4, "horizon": 10}, tmp_path, Workers("serial", 1))


@pytest.mark.parametrize(("is_drawn", "count"), [(False, 12), (True, 4)])
def test_batch_with_a_world_of_its_own_is_one_cluster(task, is_drawn, count):
    trial = Trial("three arms", lambda batch: WORLD, lanes=3, is_drawn=is_drawn)
    sample = trial.sample(task)
    assert sample.regrets(settings.TRUTH).shape == (count,)
    assert sample.samples_per_decision({"agent": "racing", "stopping": 7}) == pytest.approx(7.0)


def test_same_means_and_noise_meet_every_agent(task):
    """One sample a race from the reference is Thompson sampling under it: paired, but not equal."""
    sample = Trial("three arms", lambda batch: WORLD, lanes=16).sample(task)
    twice = [sample.regrets({"agent": "greedy", "label": label}) for label in ("a", "b")]
    assert (twice[0] == twice[1]).all()


@pytest.mark.parametrize(("threshold", "longest"), [("printed", 1572), ("shortened", 1055)])
def test_supremum_ends_a_race_where_the_slack_does_at_the_latest(task, threshold, longest):
    trial = Trial("Beta(5, 5)", lambda batch: settings.beta_world(10), lanes=3)
    assert readings._longest_race(threshold) == longest
    assert 0.9 * longest < trial.pilot(task, Reading("reference", threshold, "supremum")) <= longest


def test_trial_is_found_again_and_grows_from_look_to_look(task, monkeypatch):
    def trial():
        return Trial("three arms", lambda batch: WORLD, lanes=3)

    first = trial().sample(task).regrets(settings.TRUTH)
    second = trial().sample(task, 2).regrets(settings.TRUTH)
    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", None)
    assert (second[: len(first)] == first).all() and len(second) == 2 * len(first)
    assert (trial().sample(task, 2).regrets(settings.TRUTH) == second).all()


def test_races_are_found_again(task, monkeypatch):
    monkeypatch.setattr(races, "RACES_PER_BATCH", 20)
    reading = Reading("matched", "printed", "value")
    found = races.Problem(0).sample(task, 1).errors(reading)
    monkeypatch.setattr(races, "race_for_errors", None)
    assert (races.Problem(0).sample(task, 1).errors(reading) == found).all()
    assert found.shape == (80,)


def test_smc_has_the_particles_of_the_first_look(task):
    trial = Trial("three arms", lambda batch: WORLD, lanes=3)
    schedules = [measures._smc(trial.sample(task, look), PLAIN)["num_particles"] for look in (1, 2)]
    assert schedules[0] == schedules[1] and len(schedules[0]) == 10


def test_command_settles_table_1_and_draws_the_matrix(tmp_path):
    assert readings.main(["--only", "table1", "--workers", "1", "--out", str(tmp_path)]) == 0
    rows = (tmp_path / "table1.md").read_text(encoding="utf-8").splitlines()
    judged = {
        row.split(" | ")[0][2:]: row.split(" | ")[2].split("**")[1]
        for row in rows
        if ": the " in row[:40]
    }
    names = ("bernoulli", "exponential", "gaussian", "poisson")
    assert {judged[f"{name}: the posterior follows from the prior"] for name in names} == {HOLDS}
    jeffreys = [judged[f"{name}: the prior is Jeffreys'"] for name in names]
    assert jeffreys == [FAILS, FAILS, HOLDS, HOLDS]
    assert (tmp_path / "readings.png").stat().st_size > 10_000


def test_command_plays_and_is_resumable(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(matrix, "LOOKS", (1,))
    monkeypatch.setattr(matrix, "READINGS", (PLAIN, Reading("reference", "shortened", "weight")))
    command = ["--only", "fig1a", "--workers", "1", "--scale", "0.0005", "--out", str(tmp_path)]
    assert readings.main(command) == 0
    page = (tmp_path / "fig1a.md").read_text(encoding="utf-8")
    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", None)
    assert readings.main(command) == 0
    assert (tmp_path / "fig1a.md").read_text(encoding="utf-8") == page
    assert "| about 400 samples are used in each time step |" in page
