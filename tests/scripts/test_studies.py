"""The studies at a hundredth of their scale, and what they have in common."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from agents import ExactThompson
from agents.bayes_optimal import expected_regret
from scripts.studies import distance, optimal
from scripts.studies import study as studies
from scripts.studies.__main__ import main
from scripts.studies.study import DOCS, HERE, NAMES, PLACE, Study, fill, made

FEWER = {
    "exact": [
        ('fidelity-v1]\nonly = ""', 'fidelity-v1]\nonly = "Beta(5, 5), 100 pulls"'),
        ('adversarial]\nonly = ""', 'adversarial]\nonly = "sure prior"'),
    ],
    "optimal": [
        ("horizon_5 = 12", "horizon_5 = 4"),
        ("horizon_many = 1000", "horizon_many = 200"),
    ],
    "distance": [('only = ""', 'only = "Bernoulli, Beta(5, 5)"')],
}
"""Of studies that would take minutes: what stands in their settings, and stands for it here."""


@pytest.fixture
def fewer(tmp_path, monkeypatch):
    """A folder whose settings are those of the studies, of fewer cases, and the current one."""
    for name in NAMES:
        text = (HERE / f"{name}.toml").read_text(encoding="utf-8")
        for full, part in FEWER.get(name, []):
            assert full in text
            text = text.replace(full, part)
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(studies, "HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_study_writes_numbers_pictures_and_a_page_and_goes_on_where_it_was(
    name, fewer, monkeypatch, capsys
):
    if name == "sb3":
        pytest.importorskip("stable_baselines3")
    command = [name, "--scale", str(Study(name).scale / 100), "--workers", "1"]
    assert main(command) == 0
    folder = fewer / "build/studies" / name
    found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    page = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert fill(page, Study(name).module.tell(found) | {"made": made(found)}) == page
    assert f"`python -m scripts.studies {name} --scale" in page
    pictures = re.findall(r"\]\((\w+)\.png\)", page)
    assert {f"{each}.png" for each in pictures} == {path.name for path in folder.glob("*.png")}
    monkeypatch.setattr(Study(name).module, "parts", lambda task: dict.fromkeys(found["numbers"]))
    assert main(command) == 0  # without a part that could be measured
    again = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert again["numbers"] == found["numbers"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_a_place_for_each_table_and_shows_the_stored_numbers(name):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert "made" in {place for _, place, _ in PLACE.findall(page)}
    stored = DOCS / f"{name}.json"
    if stored.exists():
        found = json.loads(stored.read_text(encoding="utf-8"))
        assert fill(page, Study(name).module.tell(found) | {"made": made(found)}) == page


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name must be one of"),
        (["exat"], "got 'exat'; the nearest known one is 'exact'"),
        (["exact", "--scale", "0"], "scale must be a finite number above 0"),
        (["exact", "--scale", "nan"], "scale must be a finite number above 0"),
        (["exact", "--scale", "0.01", "--out", str(DOCS)], "out must be another folder than"),
        (["exact", "--workers", "0"], "workers must be a positive integer, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    arguments, text, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert text in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_page_says_that_its_numbers_are_of_another_results_version():
    found = {"command": "x", "date": "2026-01-01", "results_version": 1}
    assert "these numbers are of another" in made(found)
    found["results_version"] = studies.RESULTS_VERSION
    assert "another" not in made(found)


def test_a_page_without_a_place_for_a_table_is_refused():
    page = "<!-- study: made -->\nold\n<!-- study: end -->\n"
    assert fill(page, {"made": "new"}) == page.replace("old", "new")
    with pytest.raises(ValueError, match=r"places \['made', 'table'\], got \['made'\]"):
        fill(page, {"made": "new", "table": ""})


# -- Does distance matter? ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.5, 0.9, distance.SAME),
        (0.2, 0.9, distance.SAME),
        (0.2, 1.1, distance.COSTS),
        (-1.1, -0.2, distance.GAINS),
        (-0.1, 1.1, distance.OPEN),
        (-3.0, 3.0, distance.OPEN),
    ],
)
def test_intervals_come_to_words_by_a_margin_of_one(low, high, words):
    assert distance.judge([0.0, low, high], 1.0) == words


def test_worlds_are_averaged_in_each_replication_which_they_share():
    luck = np.random.default_rng(0).normal(0.0, 1.0, (40, 1))
    settings = {"agents": ["a", "b"], "level": 0.05}
    task = studies.Task(settings, 1.0, DOCS, studies.Workers("serial"))
    alike = distance._pool(task, "rare", [(0.1, 0.2, luck), (0.3, 0.4, luck)])
    assert (alike["excess"], alike["lean"]) == (pytest.approx(0.2), pytest.approx(0.3))
    tail = 0.05 / (2 * (5 + 1) * 1) / 2  # of two agents, five kinds and all, one horizon
    half = stats.t.ppf(1 - tail, 39) * luck.std(ddof=1) / np.sqrt(40)  # as of one world
    middle = luck.mean()
    np.testing.assert_allclose(alike["lost"], [[middle, middle - half, middle + half]])
    opposed = distance._pool(task, "rare", [(0.1, 0.2, 0.5 + luck), (0.1, 0.2, 0.5 - luck)])
    np.testing.assert_allclose(opposed["lost"], [[0.5] * 3])  # luck that cancels out


SAME, COSTS, UNDECIDED = [0.0, -0.01, 0.01], [0.3, 0.2, 0.4], [0.0, -0.3, 0.3]


@pytest.mark.parametrize(
    ("intervals", "word"),
    [
        ([SAME] * 4, "holds"),
        ([SAME] * 3 + [UNDECIDED], "holds"),
        ([SAME] * 2 + [UNDECIDED] * 2, "undecided"),
        ([SAME] * 3 + [COSTS], "fails"),
    ],
)
def test_a_claim_fails_by_what_is_against_it(intervals, word):
    row = {"agent": "a", "kind": "rare", "excess": 0.0, "lean": 0.0}
    settings = {"near": 0.02, "horizons": [9], "margin": 0.1, "most": 0.75}
    rows = pd.DataFrame([row | {"lost": [each]} for each in intervals])
    assert next(distance._verdicts(rows, settings))["verdict"] == word


# -- How much is avoidable? ---------------------------------------------------------------------

UNIFORM = optimal._problem(optimal.UNIFORM, 2)


def test_agent_as_a_rule_loses_what_its_law_does():
    # A table is within 1e-6 of the law, and a decision costs at most 1: twelve times as much.
    found = expected_regret(UNIFORM, optimal.as_rule(ExactThompson(UNIFORM)), 12)
    assert found == pytest.approx(expected_regret(UNIFORM, "thompson", 12), abs=12e-6)


def test_no_rule_is_below_the_least_and_one_pull_leaves_no_choice():
    settings = Study("optimal").settings
    sizes = {"sizes": dict.fromkeys(settings["sizes"], 5)}
    task = studies.Task(settings | sizes, 1.0, DOCS, studies.Workers("serial"))
    first, *_, last = [row for row in optimal._ratios(task, "uniform") if row["arms"] == 2]
    assert first["horizon"] == 1 and first["ratios"] == pytest.approx(
        dict.fromkeys(first["ratios"], 1)
    )
    assert min(last["ratios"].values()) >= 1


# -- Beside Stable-Baselines3 -------------------------------------------------------------------


SHORT = Study("sb3").settings["short"]


@pytest.fixture
def sb3():
    pytest.importorskip("stable_baselines3")
    return Study("sb3").module


def test_training_is_compared_with_what_is_known_exactly(sb3):
    known = {label: round(value, 4) for label, value in sb3.bounds(SHORT).items()}
    assert known == {"random play": 10.0, "exact Thompson": 12.5489, "best possible": 13.4658}


def test_return_of_a_policy_is_the_exact_one(sb3):
    model = sb3.make_model(Study("sb3").settings, "PPO, ended", SHORT, SHORT["horizon"], 0)
    world = sb3.make_world(SHORT, SHORT["horizon"], "counts", 1)
    agent = sb3.SB3Agent(model)

    def rule(counts, sums):
        agent.reset(num_envs=len(counts), seed=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)
        left = 1 - counts.sum(axis=1, keepdims=True) / SHORT["horizon"]
        shown = np.concatenate([counts / SHORT["horizon"], means, left], axis=1)
        law = agent.action_probabilities(shown.astype(np.float32)).astype(float)
        return law / law.sum(axis=1, keepdims=True)

    exact = sb3.expected_reward(world.unwrapped.problem, rule, SHORT["horizon"])
    # A regret is at most 20 ranges of three uniform means, whose squares are 0.3 on average.
    error = SHORT["horizon"] * 0.3**0.5 / 10_000**0.5
    assert sb3.mean_return(SHORT, 10_000, model) == pytest.approx(exact, abs=4 * error)


def test_scaled_counts_are_posterior_means_precisions_and_the_time_left(sb3):
    space = sb3.make_world(SHORT, 20, "counts", 1).single_observation_space
    counts = [[0.1, 0.4, 0.0, 0.5, 0.75, 0.5, 0.5]]  # 1 of 2, 6 of 8, none of none
    expected = [4 * 2 / 4 - 2, 4 * 7 / 10 - 2, 0, 2 / 3**0.5 - 1, 2 / 3 - 1, 1, 0]
    found = sb3.ScaledCounts(space, 20)(sb3.torch.tensor(counts))
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("label", Study("sb3").settings["models"])
def test_every_model_of_the_settings_can_be_built(sb3, label):
    settings = Study("sb3").settings
    model = sb3.make_model(settings, label, settings["worlds"][0]["env"], 50, 0)
    assert model.n_envs == sb3.described(settings, label)["num_envs"]
