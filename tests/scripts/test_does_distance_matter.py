"""The study of what distance costs at a small fraction of its size, and its parts by hand."""

import does_distance_matter
import numpy as np
import pandas as pd
import pytest
from cost_of_distance import distances, regrets, report
from cost_of_distance.agents import Agreeing, MeanField, Wavering
from cost_of_distance.regrets import COSTS, GAINS, OPEN, SAME, judge
from cost_of_distance.settings import CONTENDERS, SHOWN, WORLDS
from pages.page import write_page
from scipy import stats

from agents import ExactThompson
from bandit_gym.fidelity.distance import total_variation
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from scripts.studies.outsiders import Target, fit

PROBLEM = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
COUNTS, SUMS = np.array([9, 0, 3]), np.array([6.0, 0.0, 1.0])
SIZE = 4000


@pytest.mark.parametrize(
    "low, high, words",
    [
        (-0.5, 0.9, SAME), (0.2, 0.9, SAME), (-0.9, -0.2, SAME),
        (0.2, 1.1, COSTS), (-1.1, -0.2, GAINS), (-0.1, 1.1, OPEN), (-3.0, 3.0, OPEN),
    ],
)  # fmt: skip
def test_intervals_come_to_words_by_a_margin_of_one(low, high, words):
    assert judge(low, high, 1.0) == words


@pytest.mark.parametrize("kind, bend", [(Agreeing, 2.0), (Wavering, 1.0)])
def test_bent_agents_draw_from_the_law_that_they_tell(kind, bend):
    exact, agent = ExactThompson(PROBLEM), kind(PROBLEM)
    for each in (exact, agent):
        each.reset(SIZE, seed=0)
        each.warm_start(COUNTS, SUMS)
    law, own = (each.action_probabilities()[0] for each in (exact, agent))
    bent = law**bend / (law**bend).sum()
    np.testing.assert_allclose(own, bent if kind is Agreeing else 0.9 * law + 0.1 / 3)
    shares = np.bincount(agent.act(), minlength=3) / SIZE
    assert (np.abs(shares - own) < 4 * np.sqrt(own * (1 - own) / SIZE)).all()


def test_mean_field_that_fits_one_arm_a_reward_has_the_fit_of_the_sampler():
    agent = MeanField(PROBLEM)
    agent.reset(3, seed=0)
    for arm, count, total in zip(range(3), COUNTS, SUMS, strict=True):
        for pull in range(count):
            agent.observe(np.full(3, arm), np.full(3, float(pull < total)))
    (centre,), (curvature,) = fit(Target(PROBLEM, COUNTS, SUMS))
    std = (-curvature) ** -0.5
    # the bound is looked at in 60 points, which differ: a hundredth of a standard deviation
    assert (np.abs(agent.centres - centre) < 0.03 * std).all()
    assert (np.abs(agent.stds / std - 1) < 0.03).all()


def test_histories_carry_their_exact_law_and_stand_for_each_horizon():
    name = "Bernoulli, Beta(5, 5)"
    histories = distances.come_by(WORLDS[name], [8, 24], 2, 0)
    assert [each.horizon for each in histories].count(8) == 2 * 2 == len(histories) / 2
    assert sorted({int(each.counts.sum()) for each in histories}) == [2, 6, 18]
    agent = ExactThompson(WORLDS[name].problem)
    agent.reset(1, seed=0)
    agent.warm_start(histories[-1].counts, histories[-1].sums)
    assert total_variation(agent.action_probabilities()[0], histories[-1].law) < 1e-3


@pytest.mark.parametrize("label", ["racing", "SMC, 100 particles", "Laplace", "two draws agree"])
def test_laws_are_told_drawn_or_counted(label):
    (contender,) = (each for each in CONTENDERS if each.label == label)
    law = np.array([0.5, 0.1, 0.4])
    history = distances.History(10, COUNTS, SUMS, law)
    source = distances.make_source(contender, PROBLEM)
    laws, floor = distances.find_laws(source, PROBLEM, history, np.random.SeedSequence(0))
    np.testing.assert_allclose(laws.sum(axis=1), 1.0)
    is_told = label in ("SMC, 100 particles", "two draws agree")
    assert (len(laws), floor > 0) == ((distances.NUM_LANES, False) if is_told else (1, True))


def test_a_claim_is_refuted_by_what_is_against_it():
    rows = pd.DataFrame(
        {"agent": "a", "kind": "b", "horizon": 9, "share": 0.1, "words": SAME}, range(8)
    )
    assert report._claim(rows, "none", SAME).holds == "holds"
    rows.loc[0, "words"] = COSTS
    verdict = report._claim(rows, "none", SAME)
    assert verdict.holds == "holds in part" and "a, b at 9 (costs)" in verdict.evidence
    assert report._claim(rows.assign(words=OPEN), "none", SAME).holds == "undecided"
    assert report._claim(rows.assign(words=COSTS), "none", GAINS).holds == "does not hold"
    assert report._claim(rows.assign(words=SAME), "costs", COSTS).holds == "does not hold"
    rows["words"] = [COSTS] * 6 + [SAME, OPEN]
    assert report._claim(rows, "costs", COSTS).holds == "holds in part"


def test_what_a_run_raised_is_told_in_a_line_without_paths():
    raised = RuntimeError("a failed in results/data/89:\nValueError: x\n\nTraceback\n  File /y")
    assert regrets._headline(raised) == "ValueError: x"
    assert regrets._headline(RuntimeError("x")) == "x"


def test_picture_has_seven_marks_at_most_each_of_them_an_agent():
    assert len(SHOWN) <= 7
    assert set(SHOWN) <= {each.label for each in CONTENDERS}


def rows_of(agent, losses, **told):
    """Rows of the world with that share of regret lost in each of its replications."""
    row = {"agent": agent, "kind": "rare", "tv": 0.1, "bold": 0.1, "lean": 0.1, "exact": 20.0}
    row |= {"failure": ""} | told
    return [
        row | {"world": world, "horizon": t, "lost": np.array(lost)}
        for world, lost in losses.items()
        for t in (9, 99)
    ]


def test_worlds_are_averaged_in_each_replication_which_they_share():
    luck = np.random.default_rng(0).normal(0.0, 1.0, 40)
    alike, opposed = {"v": luck, "w": luck}, {"v": 0.5 + luck, "w": 0.5 - luck}
    rows = [*rows_of("alike", alike), *rows_of("opposed", opposed)]
    pooled = regrets.pool(pd.DataFrame(rows)).set_index(["kind", "agent", "horizon"])
    assert len(pooled) == 8 and (pooled["worlds"] == 2).all()
    one = pooled.loc["rare", "alike", 9]
    tail = regrets.LEVEL / regrets.NUM_INTERVALS / 2
    half = stats.t.ppf(1 - tail, 39) * luck.std(ddof=1) / np.sqrt(40)  # as of one world
    np.testing.assert_allclose([one.share, one.high], [luck.mean(), luck.mean() + half])
    two = pooled.loc["all", "opposed", 99]
    np.testing.assert_allclose([two.share, two.low, two.high], 0.5)  # luck that cancels out
    assert (one.words, two.words) == (OPEN, COSTS)


def test_page_has_what_was_found_what_failed_and_a_picture(tmp_path):
    losses = {"w": np.linspace(-0.1, 0.2, 20)}
    rows = [
        *rows_of("racing", losses),
        *rows_of("b", {"w": losses["w"] + 0.1}, tv=0.3, bold=0.3, lean=0.3),
    ]
    failed = {"agent": "c", "world": "w", "kind": "rare", "failure": "it raised"}
    found = pd.DataFrame([*rows, *(failed | {"horizon": t, "tv": 0.1} for t in (9, 99))])
    sections = report.tell(found, {}, 10)
    write_page(tmp_path / "page.md", report.TITLE, report.describe(found, "command"), sections)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "+5% [-5%, +15%] undecided" in page and "w (20.0, 20.0)" in page and "; 20 runs" in page
    assert "- c in w: it raised" in page
    assert (tmp_path / "does-distance-matter.png").stat().st_size > 5_000


def test_unknown_world_is_refused(capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        does_distance_matter.main(["--only", "nowhere", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "--only must be part of a world's name, got 'nowhere'." in capsys.readouterr().err
