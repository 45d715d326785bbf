"""The studies at a hundredth of their scale, and what they have in common."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats
from surface import started

from agents import RacingThompson
from agents.racing.proposals import reference_proposal
from agents.racing.races import find_log_weights
from agents.racing.stopping import threshold_function
from bandit_gym.fidelity.suite import DensityOnly
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Beta, Gamma, InverseGamma, TruncatedNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from scripts.studies import distance, figures, optimal, paper, table2, theorem1, variants
from scripts.studies import study as studies
from scripts.studies.__main__ import main
from scripts.studies.claims import ClaimMeasure, share_interval, skewed_interval
from scripts.studies.study import DOCS, FAILS, HOLDS, UNDECIDED, import_study, load_settings, made

HORIZONS = {"1a": 1000, "1b": 10000, "2": 10000, "table2": 1000}
SIMILAR = (
    *("printed, weight", "printed, supremum"),
    *("shortened, value", "shortened, supremum"),
    *("printed, weight, matched", "shortened, weight, matched"),
)
"""Variants of the paper that differ from others by one option, as their agents are tested for."""
FEWER = {
    "exact": [
        ('fidelity-v1]\nonly = ""', 'fidelity-v1]\nonly = "Beta(5, 5), 100 pulls"'),
        ('adversarial]\nonly = ""', 'adversarial]\nonly = "sure prior"'),
        ('"smc" }', '"smc", num_particles = 50 }'),
        ('"smc_paper" }', '"smc_paper", num_particles = 50 }'),
    ],
    "paper": [
        *((f"horizon_{name} = {full}", f"horizon_{name} = 8") for name, full in HORIZONS.items()),
        *((f"horizon_{name}_others = 1000", f"horizon_{name}_others = 8") for name in HORIZONS),
        ("deltas = [0.1, 0.3, 0.5, 0.7]", "deltas = [0.7]"),
        ("sigmas = [0.1, 0.3, 0.5, 0.7]", "sigmas = [0.7]"),
        ("early = 100", "early = 5"),
        ("races = 16000", "races = 1000"),
        ("races_others = 4000", "races_others = 1000"),
        ("runs = { 2 = 10, 3 = 10, 4 = 10, 5 = 10, 10 = 2 }", "runs = { 2 = 10, 4 = 10 }"),
        ("replications = 100\nhorizon = 20", "replications = 16\nhorizon = 10"),
        ("flips = 10000", "flips = 400"),
        *((f'\n"{name}" = ', f'\n# "{name}" = ') for name in SIMILAR),
        ('[variants."shortened, weight, by draws"]', "[another_variant]"),
        ('readings_1a = ["shortened, value", ', "readings_1a = ["),
        *(
            (f'[figures."Figure 1b, N({law})"', f'[others."N({law})"')
            for law in ("0.5, 0.3²", "0.3 to 0.7, 0.1²")
        ),
    ],
    "optimal": [
        ("horizon_2 = 100", "horizon_2 = 8"),
        ("horizon_3 = 30", "horizon_3 = 2"),
        ("horizon_5 = 12", "horizon_5 = 1"),
        ("horizon_costs = 60", "horizon_costs = 8"),
        ("horizon_many = 1000", "horizon_many = 50"),
        ('[priors."rare stars"]', "[another_prior]"),
        (', KL-UCB = "kl_ucb", UCB1 = "ucb1", greedy = "greedy"', ""),
    ],
    "distance": [
        ('only = ""', 'only = "Bernoulli, Beta(5, 5)"'),
        ('"smc_paper" }', '"smc_paper", num_particles = 50 }'),
    ],
    "libraries": [
        ('["exact", "racing", "smc"]', '["exact"]'),
        ('["exact", "racing", "laplace"]', '["laplace"]'),
        ("max_pulls = 5000", "max_pulls = 20"),
        ("libraries = [", "libraries = []\nothers = ["),
    ],
    "court": [("max_features = 20", "max_features = 2")],
    "sb3": [("trainings = 3", "trainings = 1"), ("horizon = 50", "horizon = 20")],
}
"""Of studies that would take minutes: what stands in their settings, and stands for it here."""


@pytest.fixture
def fewer(tmp_path, monkeypatch):
    """A folder whose settings are those of the studies, of fewer cases, and the current one."""
    for name in studies.NAMES:
        text = (studies.STUDIES_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        for full, part in FEWER.get(name, []):
            assert full in text
            text = text.replace(full, part)
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(studies, "STUDIES_FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", studies.NAMES)
def test_a_study_writes_numbers_pictures_and_a_page_and_goes_on(name, fewer, monkeypatch, capsys):
    if name == "sb3":
        pytest.importorskip("stable_baselines3")
    command = [name, "--scale", str(load_settings(name)["scale"] / 100), "--workers", "1"]
    assert main(command) == 0
    folder = fewer / "build/studies" / name
    found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    page = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert f"`python -m scripts.studies {name} --scale" in page
    pictures = re.findall(r"\]\(([\w-]+)\.(?:svg|png)\)", page)
    assert {*pictures} == {path.stem for path in folder.glob("*.svg")}
    monkeypatch.setattr(import_study(name), "parts", lambda task: dict.fromkeys(found["numbers"]))
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)  # they are there
    assert main(command) == 0  # without a part that could be measured
    again = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert again["numbers"] == found["numbers"]
    told = (folder / f"{name}.md").read_text(encoding="utf-8")
    places = dict.fromkeys((each[1] for each in studies.STUDY_BLOCK.findall(told)), "lost")
    lost = studies.fill_blocks(told, places)
    (folder / f"{name}.md").write_text(lost, encoding="utf-8")
    monkeypatch.setattr(studies, "DOCS", folder)
    assert main(["--tell"]) == 0  # which makes the tables again
    assert (folder / f"{name}.md").read_text(encoding="utf-8") == told


@pytest.mark.slow
@pytest.mark.pages  # as it imports every study, that of SB3 too
def test_tables_are_what_stored_numbers_say_and_edited_ones_are_told(tmp_path, monkeypatch, capsys):
    assert studies.find_edited_tables() == []
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    edited = page.replace("| a whole page | 0 of 20 |", "| a whole page | 1 of 20 |")
    (tmp_path / "paper.md").write_text(edited, encoding="utf-8")
    (tmp_path / "paper.json").write_bytes((DOCS / "paper.json").read_bytes())
    monkeypatch.setattr(studies, "DOCS", tmp_path)
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/paper.md: errors is not what the stored numbers say\n"


SENSELESS = [
    ([], "name must be one of"),
    (["exat"], "got 'exat'; the nearest known one is 'exact'"),
    (["exact", "--scale", "0"], "scale must be a finite number above 0"),
    (["exact", "--scale", "nan"], "scale must be a finite number above 0"),
    (["exact", "--workers", "0"], "workers must be a positive integer, got 0"),
]


def test_what_makes_no_sense_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments, text in SENSELESS:
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert text in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_page_says_that_its_numbers_are_of_another_results_version():
    found = {"command": "x", "date": "2026-01-01", "results_version": 1}
    today = f"([today {studies.RESULTS_VERSION}](project/changelog.md))"
    assert f"at results version 1 {today}, 2026-01-01." in made(found)
    found["results_version"] = studies.RESULTS_VERSION
    assert f"at results version {studies.RESULTS_VERSION}, 2026-01-01." in made(found)


def test_a_page_repeats_a_short_option_and_says_where_the_names_of_many_parts_are():
    command = "python -m scripts.studies court"
    found = {"command": command, "date": "2026-01-01", "results_version": 1}
    for option, text in [
        ('"d = 5"', 'later, with `--only "d = 5"` at 2, 2026-01-02.'),
        ('"d = 5" ' * 20, "later, parts that `docs/court.json` names, at 2, 2026-01-02."),
    ]:
        origin = {"command": f"{command} --only {option}", "date": "2026-01-02"}
        assert made(found | {"later": {"d": origin | {"results_version": 2}}}).endswith(text)


def test_an_interval_is_written_by_its_half_width_unless_it_is_lopsided():
    assert studies.write_interval((0.5, 0.3, 0.7), 1) == "0.5 ± 0.2"
    assert studies.write_interval((0.5, 0.3, 0.8), 1) == "0.5 [0.3, 0.8]"
    assert studies.write_percentage((0.0123, -0.02, 0.0446)) == "+1 ± 3 %"
    assert studies.write_percentage((-0.05, -0.1, 0.02)) == "-5 [-10, +2] %"


def test_a_page_without_a_place_for_a_table_is_refused():
    page = "<!-- study: made -->\nold\n<!-- study: end -->\n"
    assert studies.fill_blocks(page, {"made": "new"}) == page.replace("old", "new")
    with pytest.raises(ValueError, match=r"places \['made', 'table'\], got \['made'\]"):
        studies.fill_blocks(page, {"made": "new", "table": ""})


def test_intervals_come_to_words_by_a_margin_of_one():
    for low, high, words in [
        (-0.5, 0.9, distance.SAME),
        (0.2, 0.9, distance.SAME),
        (0.2, 1.1, distance.COSTS),
        (-1.1, -0.2, distance.GAINS),
        (-0.1, 1.1, distance.OPEN),
        (-3.0, 3.0, distance.OPEN),
    ]:
        assert distance.judge_interval([0.0, low, high], 1.0) == words


# -- Does distance matter? ----------------------------------------------------------------------


def make_row(excess, lean, lost=(0.0,)):
    return {"distance": excess, "lean": lean, "lost": lost}


def test_rows_are_averaged_in_each_replication_which_they_share():
    luck = np.random.default_rng(0).normal(0.0, 1.0, 40)
    alike = distance.average([make_row(0.1, 0.2, luck), make_row(0.3, 0.4, luck)])
    assert (alike["distance"], alike["lean"]) == (pytest.approx(0.2), pytest.approx(0.3))
    np.testing.assert_allclose(alike["lost"], luck)
    opposed = distance.average([make_row(0.1, 0.2, 0.5 + luck), make_row(0.1, 0.2, 0.5 - luck)])
    np.testing.assert_allclose(opposed["lost"], 0.5)  # luck that cancels out


def test_class_is_by_distance_and_then_by_what_the_favourite_gets():
    for excess, lean, group in [
        (0.02, -0.02, distance.NEAR),
        (0.03, -0.03, distance.LESS),
        (0.03, 0.03, distance.MORE),
        (0.03, 0.0, distance.OTHER),
    ]:
        assert distance.classify(make_row(excess, lean), 0.02) == group


def test_claim_is_decided_by_the_one_interval_of_its_average():
    for mean, spread, word in [(0.5, 0.1, "holds"), (0.05, 0.1, "fails"), (0.5, 9.0, "undecided")]:
        lost = np.random.default_rng(0).normal(mean, spread, 80)
        numbers = {"agent: Laplace": [make_row(0.1, -0.1, lost)] * 2}
        found = {"settings": load_settings("distance"), "numbers": numbers}
        (cells,) = distance.judge_claims(found)
        assert (cells["verdict"], cells["pairs"]) == (word, "2")


# -- Beside Stable-Baselines3 -------------------------------------------------------------------


SHORT = load_settings("sb3")["short"]


@pytest.fixture
def sb3():
    pytest.importorskip("stable_baselines3")
    return import_study("sb3")


@pytest.mark.nightly
def test_training_is_compared_with_what_is_known_exactly(sb3):
    known = {label: round(value, 4) for label, value in sb3.find_reference_returns(SHORT).items()}
    assert known == {"random play": 10.0, "exact Thompson": 12.5489, "best possible": 13.4658}


@pytest.mark.nightly
def test_return_of_a_policy_is_the_exact_one(sb3):
    told = sb3.models.resolve_model_settings(load_settings("sb3"), "PPO, ended")
    model = sb3.models.make_model(told, SHORT, SHORT["horizon"], 0)
    model.policy.action_net.weight.data *= 100  # untrained, it plays by chance whatever it is shown
    environment = sb3.models.make_training_env(SHORT, SHORT["horizon"], "counts", 1)
    agent = sb3.SB3Agent(model)

    def rule(counts, sums):
        agent.reset(num_envs=len(counts), seed=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)
        left = 1 - counts.sum(axis=1, keepdims=True) / SHORT["horizon"]
        shown = np.concatenate([counts / SHORT["horizon"], means, left], axis=1)
        law = agent.action_probabilities(shown.astype(np.float32)).astype(float)
        return law / law.sum(axis=1, keepdims=True)

    problem, horizon = environment.unwrapped.problem, SHORT["horizon"]
    best = horizon * sb3.expected_best_mean(problem)
    exact = best - sb3.expected_regret(problem, rule, horizon)[-1]
    # A regret is at most 20 ranges of three uniform means, whose squares are 0.3 on average.
    error = SHORT["horizon"] * 0.3**0.5 / 10_000**0.5
    assert sb3.mean_return(SHORT, 10_000, model) == pytest.approx(exact, abs=4 * error)


@pytest.mark.nightly
def test_scaled_counts_are_posterior_means_precisions_and_the_time_left(sb3):
    space = sb3.models.make_training_env(SHORT, 20, "counts", 1).single_observation_space
    counts = [[0.1, 0.4, 0.0, 0.5, 0.75, 0.5, 0.5]]  # 1 of 2, 6 of 8, none of none
    expected = [4 * 2 / 4 - 2, 4 * 7 / 10 - 2, 0, 2 / 3**0.5 - 1, 2 / 3 - 1, 1, 0]
    found = sb3.models.ScaledCounts(space, 20)(sb3.models.torch.tensor(counts))
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.nightly
def test_policy_with_memory_sees_what_the_last_pull_said_of_the_coefficients(sb3):
    env = load_settings("sb3")["worlds"][-1]["env"]
    lanes = sb3.models.make_training_env(env, 3, "history", 2)
    (seen, _), arms = lanes.reset(seed=0), np.array([4, 1])
    for is_over in (False, False, True):
        features = seen[:, :15].reshape(2, 5, 3)
        seen, rewards, *_ = lanes.step(arms)
        row = features[[0, 1], arms] * np.where(rewards == 1, 1, -1)[:, None]
        np.testing.assert_array_equal(seen[:, 15:], 0 if is_over else row)
    plain = sb3.models.make_training_env(env, 3, "constant", 2).reset(seed=0)[0]
    assert plain.shape == (2, 5, 3)


# -- Does the paper hold? -----------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_claim_at_its_limit_is_settled_no_more_often_than_the_level_allows(sign):
    """Skewed values whose mean is the limit: three looks, any verdict is wrong."""
    rng, level, count = np.random.default_rng(0), 0.05, 1500
    wrong = 0
    for values in sign * (rng.gamma(4.0, size=(count, 64)) - 4.0):
        looks = (ClaimMeasure(values[:n], low=0.0).verdict(level / 3) for n in (16, 32, 64))
        wrong += any(verdict != UNDECIDED for verdict in looks)
    assert wrong / count <= level + 3 * np.sqrt(level * (1 - level) / count)


def test_claim_between_two_limits_needs_both():
    for mean, verdict in [(0.0, HOLDS), (1.9, UNDECIDED), (5.0, FAILS), (-5.0, FAILS)]:
        values = np.random.default_rng(0).normal(mean, size=100)
        assert ClaimMeasure(values, low=-2.0, high=2.0).verdict(0.001) == verdict


def test_limit_that_is_paired_with_the_values_is_taken_with_its_noise():
    """Values follow their limit closely: apart, neither could be told from the other."""
    rng = np.random.default_rng(0)
    limit = rng.normal(0.0, 10.0, size=50)
    assert ClaimMeasure(limit + rng.normal(0.5, 0.1, size=50), low=limit).verdict(0.001) == HOLDS


def test_few_values_settle_nothing_and_one_that_was_worked_out_or_is_exactly_the_limit_does():
    assert ClaimMeasure(np.arange(15.0) + 100, low=0.0).verdict(0.05) == UNDECIDED
    assert ClaimMeasure(np.full(15, 1.0), high=2.0).verdict(0.05) == UNDECIDED
    assert ClaimMeasure(np.full(16, 1.0), high=2.0).verdict(0.05) == HOLDS
    assert ClaimMeasure(np.full(1, 1.0), high=2.0).verdict(0.05) == HOLDS
    # No fewer samples at another delta: "more" is then wrong, and no matter of chance.
    assert ClaimMeasure(np.zeros(20), low=0.0).verdict(0.05) == FAILS


def test_interval_of_symmetric_values_is_students():
    values = np.arange(-10.0, 11.0)
    found = skewed_interval(values, 0.05)
    half = 2.0859634472658364 * np.sqrt(38.5 / 21)  # t quantile with 20 degrees; variance 38.5
    assert found == pytest.approx((0.0, -half, half))


def test_interval_of_a_share_that_never_happened_is_clopper_and_pearsons():
    """None of n: the upper end p has (1 - p)^n = level / 2."""
    assert share_interval(np.zeros(30), 0.05) == pytest.approx((0.0, 0.0, 1 - 0.025 ** (1 / 30)))
    assert share_interval(np.ones(30), 0.05) == pytest.approx((1.0, 0.025 ** (1 / 30), 1.0))


@pytest.mark.parametrize(
    ("later", "word", "looks"), [(5.0, "holds", [1, 2]), (0.0, "undecided", [1, 2, 4])]
)
def test_a_claim_is_measured_until_it_is_decided(later, word, looks):
    asked = []

    def measure(look):
        asked.append(look)
        values = np.random.default_rng(0).normal(size=20 * look) + later * (look > 1)
        return ClaimMeasure(values, low=0.0)

    settings = load_settings("paper") | {"looks": [1, 2, 4]}
    task = studies.StudyTask(settings, 0.3, DOCS, studies.Workers("serial"))
    cell = variants.VariantTask(task, settings["main"]).decide(measure)
    assert (cell["verdict"], cell["count"], asked) == (word, 20 * looks[-1], looks)
    assert ("needed" in cell) == (word == "undecided")


def test_an_undecided_claim_says_how_many_replications_would_decide_it():
    """Half-widths of 2 / sqrt(C): a mean of 0.5 above 0 needs 16, a mean 1 inside (-2, 2) needs 4.

    Normal quantiles stand for Student's, 3 % apart at 60 degrees.
    """
    half = 2.0 / stats.norm.isf(0.025)
    values = np.random.default_rng(0).normal(size=61)
    values = half * (values - values.mean()) / values.std(ddof=1)
    for mean, limits, expected in [(0.5, (0.0, np.inf), 16), (1.0, (-2.0, 2.0), 4)]:
        needed = ClaimMeasure(mean + values, *limits).num_clusters_needed(0.05)
        assert needed == pytest.approx(expected, rel=0.15)


def test_smc_parts_at_the_step_after_which_it_stays_behind():
    """Behind by 0, 3, 1 and 3 where the margin is 2: it stays behind from the last step on."""
    curve = np.tile([0.0, 3.0, 1.0, 3.0], (20, 1))
    zeros, steps = np.zeros_like(curve), np.array([1, 2, 4, 8])
    runs = {"Racing": Run(zeros, steps), "SMC": Run(curve, steps)}
    runs["exact Thompson"] = Run(zeros + 20.0, steps)
    assert figures.step_of_parting(figures.PlayedRuns([runs]), 0.1) == [8.0, 8.0, 8.0]
    assert figures.step_of_parting(figures.PlayedRuns([runs]), 0.2) is None


def test_every_variant_is_another_agent():
    settings = load_settings("paper")
    task = studies.StudyTask(settings, 1.0, DOCS, studies.Workers("serial"))
    entries = [variants.VariantTask(task, name).make_entry() for name in settings["variants"]]
    assert len({json.dumps(each, sort_keys=True) for each in entries}) == len(entries) == 11


@pytest.mark.parametrize("make", [RacingThompson, variants.RacingByDraws])
def test_race_divides_by_its_draws_or_by_one_more(make):
    """All d draws have the weight 1 and the same winner, so that its average is e^eps d / m."""
    options = {"threshold": "printed", "scale": "weight", "delta": 0.1, "sigma": 0.1}
    problem = optimal.make_problem(optimal.UNIFORM, 2)
    agent = started(make.paper, problem, 50, [1000, 1000], [1000, 0], **options)
    race = agent.race()
    d = np.arange(1, 500)
    m = d if make is variants.RacingByDraws else d + 1
    averages = np.exp(race.gumbels[:, :1]) * d / m
    ends = d[(averages > 2 * threshold_function("printed", m, 0.1) - 0.1).argmax(axis=1)]
    assert race.num_samples.tolist() == ends.tolist()
    assert 1 < np.median(ends) < ends.max()


def test_posteriors_of_table_1_follow_from_its_priors_two_of_which_are_jeffreys():
    for row in theorem1.TABLE_1_ROWS:
        assert theorem1.quantile_error(*row[:2]) < 1e-6, row
        is_jeffreys = row[0].name in ("gaussian", "poisson")
        assert (theorem1.distance_from_jeffreys(row[0]) < 1e-6) == is_jeffreys, row


def test_worlds_of_their_own_are_clusters_and_replications_of_one_world_are():
    runs = {"x": Run(np.array([[1.0, 2.0], [3.0, 6.0]]))}
    assert figures.PlayedRuns([runs]).regrets("x").tolist() == [2.0, 6.0]
    assert figures.PlayedRuns([runs, runs]).regrets("x").tolist() == [4.0, 4.0]
    assert figures.PlayedRuns([runs]).regrets("x", step=1).tolist() == [1.0, 3.0]


MATCHED = table2.Reading("shortened", "weight", is_matched=True)
READINGS = [
    (RacingThompson, table2.Reading("shortened", "value"), {"scale": "value"}),
    (RacingThompson, MATCHED, {"proposal": "matched"}),
    (variants.RacingByDraws, table2.Reading("shortened", "weight", by_draws=True), {}),
    (variants.RacingBySupremum, table2.Reading("shortened", "supremum"), {}),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("make", "reading", "options"), READINGS)
def test_table_2_is_played_as_the_papers_race_plays(make, reading, options):
    """Samples and regret of 150 runs of 20 steps, which differ by at most 4 standard errors."""
    priors, found = np.full((150, 2, 3), 5.0), []
    bars = reading.find_bars(0.1, 0.5, 1)
    found.append(table2.play_reading(reading, bars, priors, 20, 0)[:2])
    prior = {"name": "beta", "alpha": 5.0, "beta": 5.0}
    env = gym.make_vec("bandit_gym:BernoulliBandit-v0", 150, num_arms=3, prior=prior)
    options = {"scale": "weight", "threshold": "shortened", "sigma": 0.5} | options
    played = rollout(make.paper(env.unwrapped.problem, **options), env, seed=0, horizon=20)
    samples = played.diagnostics["num_samples"].mean(axis=1)
    found.append(np.array([samples, played.regret.sum(axis=1)]))
    means, errors = (np.array([f(each, axis=1) for each in found]) for f in (np.mean, stats.sem))
    assert (abs(means[0] - means[1]) <= 4 * np.hypot(*errors)).all(), means


@pytest.mark.nightly
def test_a_posteriors_first_draw_is_exact_thompson_sampling_and_later_stops_draw_more():
    exact = table2.Reading("printed", "value", is_matched=True)
    assert table2.play_reading(exact, table2.STOP_AT_ONCE, np.ones((3, 2, 2)), 5, 0)[2].max() == 1
    reading, priors = table2.Reading("shortened", "value"), np.full((3, 2, 2), 5.0)
    for first_stop in (1, 2, 3):  # the bound is so low that each race stops where it may
        bars = reading.find_bars(0.7, 0.7, first_stop)
        assert table2.play_reading(reading, bars, priors, 50, 0)[2].min() == first_stop


def test_regrets_choose_k_and_the_first_row_of_samples_chooses_the_reading():
    settings = load_settings("paper")
    settings["table2"] |= {"runs": {"3": 10, "4": 10}, "readings": {"near": {}, "far": {}}}

    def make_table(samples, regrets, first_stop):
        spread = {f"{name} std": np.full((4, 4), 2.0) for name in ("samples", "regrets")}
        numbers = {"samples": samples * np.array(settings["samples"])}
        numbers["regrets"] = regrets + np.array(settings["regrets"])
        return {"first stop": first_stop, "runs": 10} | spread | numbers

    rows = np.array([1.0, 1.0, 1.0, 1.5])[:, None]  # the last row is no part of the choice
    numbers = {
        "Table 2, K = 3: near": [make_table(1.0, 3.0, stop) for stop in (1, 2, 3)],
        "Table 2, K = 4: near": [make_table(rows, 1.0, stop) for stop in (1, 2, 3, 4)],
        "Table 2, K = 3: far": [make_table(1.2, 0.0, stop) for stop in (1, 2, 3)],
        "Table 2, K = 4: far": [make_table(1.0, 1.0, stop) for stop in (1, 2, 3, 4)],
    }
    fits = table2.find_fits({"settings": settings, "numbers": numbers})
    assert {(fit.reading, fit.num_arms) for fit in fits} == {("near", 4), ("far", 3)}
    # Regrets are 1 from the paper's, over sqrt(2^2 (1/10 + 1/10) + 0.1^2 / 12).
    assert fits[0].regrets == pytest.approx(1.0 / (0.8 + 0.01 / 12) ** 0.5)
    assert (fits[0].reading, fits[0].fitted, fits[0].within) == ("near", 0.0, 8)
    # Of three rows, the last has 1.5 times the paper's samples.
    excess = 0.5 * np.array(settings["samples"][3]) / (0.8 + 0.01 / 12) ** 0.5
    assert fits[0].judged == pytest.approx(np.sqrt(np.mean(excess**2) / 3))


def test_the_first_rule_asks_outperformers_for_the_margin():
    cells = {"competitive": {"verdict": HOLDS, "limits": [None, 6.0]}}
    for ends, word in [([7.0, 9.0], HOLDS), ([1.0, 9.0], UNDECIDED), ([-1.0, 5.0], FAILS)]:
        cells["late"] = {"verdict": HOLDS, "ends": ends}
        assert paper.find_first_verdict("late", cells) == word
    assert paper.find_first_verdict("competitive", cells) == HOLDS


def test_parts_are_measured_anew_and_the_others_stay_with_their_version(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored = {"command": "x", "date": "2026-01-01", "results_version": 1, "numbers": {"old: a": 1}}
    (tmp_path / "exact.json").write_text(json.dumps(stored))
    monkeypatch.setattr(studies, "DOCS", tmp_path)
    monkeypatch.setattr(studies, "_write_study_page", lambda study, folder, found: found)
    measured = {"old: a": lambda: 2, "new: b": lambda: 3}
    monkeypatch.setattr(import_study("exact"), "parts", lambda task: measured)
    options = load_settings("exact")["scale"], tmp_path, studies.Workers("serial")
    found = studies.measure_study("exact", *options, only=["new"])
    assert found["numbers"] == {"old: a": 1, "new: b": 3}
    assert "at results version 1 (" in made(found) and '--only "new"`' in made(found)
    with pytest.raises(
        ValueError, match=r"only must begin the name of a part, as of 'old: a', got \['newer'\]"
    ):
        studies.measure_study("exact", *options, only=["newer"])


class Run:
    """Two replications, looked at after one step and after three."""

    def __init__(self, values, steps=(1, 3)):
        self.values, self.steps = values, np.array(steps)

    def curves(self, column):
        return self.values


def test_a_race_under_the_supremum_is_never_shorter_than_under_the_largest_seen():
    """Of the same samples: values are smaller in its units, so that the same bars are met later."""
    problem, lengths = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3), []
    for kind in (RacingThompson, variants.RacingBySupremum):
        agent = kind.paper(problem, sigma=0.3)
        for seed in range(40):
            agent.reset(1)
            belief = agent.belief()
            belief.draw_best(np.random.default_rng(seed))
            lengths.append(belief.diagnostics()["num_samples"].item())
    by_value, by_supremum = np.array(lengths).reshape(2, 40)
    assert (by_supremum >= by_value).all() and (by_supremum > by_value).any()


def test_no_weight_is_above_the_supremum_also_where_another_proposal_stands_in():
    problem = BanditProblem(Gaussian(), TruncatedNormal(0.0, 1.0, -1.0, 1.0), 3)
    proposal = reference_proposal(problem)
    for counts in ([0, 0, 0], [1, 0, 2], [1, 1, 1]):
        proposal.update(make_generator("unused"), np.array([counts]), np.zeros((1, 3)))
        draws = proposal.draw(make_generator("weights"), np.arange(1), 10_000)
        log_weights = find_log_weights(proposal, np.arange(1), draws.means)
        most = variants.find_log_supremum(proposal, has_fallback=True)
        assert log_weights.max() <= most + 1e-9, counts
    # At 0; of 10,000 normal draws about 20 are within 0.2, where the log-weight is 0.02 lower.
    assert variants.find_log_supremum(proposal, has_fallback=False) - log_weights.max() < 0.02


def test_a_weight_without_a_known_supremum_is_refused():
    for likelihood, prior, text in [
        (Bernoulli(), DensityOnly(Beta(2.0, 2.0)), "must offer natural_parameters"),
        (Bernoulli(), Beta(0.5, 2.0), "q_0 is bounded"),
        (Bernoulli(), Beta(2.0, 0.5), "q_0 is bounded"),
        (Exponential(), InverseGamma(3.0, 0.5), "q_0 is bounded"),
        (Poisson(), InverseGamma(2.0, 1.0), "q_0 is bounded"),
        (Gaussian(), Gamma(2.0, 1.0), "q_0 is bounded"),
    ]:
        with pytest.raises(ValueError, match=text):
            variants.RacingBySupremum.paper(BanditProblem(likelihood, prior, 4))
