"""Beyond the paper at a fraction of its size: everything runs, and says what it found."""

import beyond_paper
import numpy as np
import pytest
from beyond import guarantee
from pages.command import scaled
from studies import SMALL, run_study, sections_with_verdicts

PICTURES = {"thrift", "particles", "regret"}


@pytest.mark.slow
def test_every_part_gives_a_verdict_on_its_claims(shared):
    folder = run_study(f"python scripts/beyond_paper.py {SMALL}", shared).folder / "results/beyond"
    sections, judged = sections_with_verdicts(folder / "README.md")
    assert len(sections) == len(beyond_paper.PARTS)
    assert sections == judged
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in PICTURES)


@pytest.mark.parametrize("law", guarantee._weight_laws()[:5], ids=lambda law: law.name)
def test_weights_of_finite_variance_have_the_expectation_that_is_claimed(law, rng):
    winners = rng.integers(guarantee.NUM_ARMS, size=400_000)
    weights = np.exp(law.draw(rng, winners))
    expected = law.expectations[winners].mean()
    assert abs(weights.mean() - expected) <= 4 * weights.std() / np.sqrt(len(weights)) + 1e-12


def test_race_that_is_clear_of_all_arms_is_hardly_ever_wrong():
    rows = guarantee._rows_of_problems(scaled(beyond_paper.PARTS["guarantee"].sizes, 0.05))
    assert all(row.usual.is_clear.mean() > 0.5 for row in rows)
    assert all(guarantee._error(row.usual).low < guarantee.DELTA for row in rows)


def test_unknown_part_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stop:
        beyond_paper.main(["--only", "everything"])
    assert stop.value.code == 2
    assert "'guarantee'" in capsys.readouterr().err
