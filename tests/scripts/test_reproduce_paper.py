"""The reproduction at a fraction of its size: everything runs, and says what it found."""

from collections import Counter

import numpy as np
import pytest
import reproduce_paper
from pages.command import Task
from paper import settings, table1, table2, theorem1
from scripts_run import SMALL, run_study, sections_with_verdicts

from bandit_gym.experiments.execution import Workers

PICTURES = ("table2", "fig1a", "fig1b", "fig2")


@pytest.mark.slow
def test_every_figure_is_reproduced_with_a_verdict_on_its_claims(shared):
    command = f"python scripts/reproduce_paper.py {SMALL}"
    folder = run_study(command, shared).folder / "results/paper"
    sections, judged = sections_with_verdicts(folder / "README.md")
    assert len(sections) == len(reproduce_paper.FIGURES)
    assert sections == judged
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in PICTURES)


def test_table_1_agrees_with_quadrature(tmp_path):
    section = table1.reproduce(Task({}, tmp_path, Workers()))
    assert section.verdicts[0].holds == "holds"


def test_unknown_figure_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stop:
        reproduce_paper.main(["--figure", "fig3"])
    assert stop.value.code == 2
    assert "'theorem1'" in capsys.readouterr().err


def test_paper_table_2_is_monotone_in_sigma_and_delta():
    samples = settings.TABLE_2[..., 0]
    assert (np.diff(samples, axis=0) < 0).all() and (np.diff(samples, axis=1) < 0).all()


def test_geometric_error_is_the_typical_factor():
    ours, paper = np.array([2.0, 5.0]), np.array([1.0, 10.0])
    assert table2.geometric_error(ours, paper) == pytest.approx(2)


@pytest.mark.parametrize(
    ("judged", "holds"),
    [
        ({"holds": 40}, "holds"),
        ({"holds": 39, "undecided": 1}, "undecided"),
        ({"holds": 38, "undecided": 1, "does not": 1}, "does not hold"),
    ],
)
def test_theorem_1_fails_with_one_problem_and_holds_with_all(judged, holds):
    assert theorem1._verdict("so", Counter(judged)).holds == holds


def test_priors_of_figure_1a_are_drawn_one_after_the_other():
    rng = np.random.default_rng(settings.PRIOR_SEED)
    for number in range(3):
        alpha, beta = rng.uniform(1.0, 10.0, size=(2, 10)).round(4).tolist()
        expected = {"name": "beta", "alpha": alpha, "beta": beta}
        assert settings.drawn_beta_world(number)["prior"] == expected
