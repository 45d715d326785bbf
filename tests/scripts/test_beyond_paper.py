"""Beyond the paper at a fraction of its size: everything runs, and says what it found."""

import re

import beyond_paper
import numpy as np
import pytest
from beyond import guarantee
from pages.command import scaled

PICTURES = {"thrift", "particles", "regret"}


@pytest.mark.slow
@pytest.mark.parametrize("part", beyond_paper.PARTS)
def test_part_gives_a_verdict_on_each_claim(part, tmp_path):
    code = beyond_paper.main(["--only", part, "--scale", "0.002", "--out", str(tmp_path)])
    page = (tmp_path / f"{part}.md").read_text(encoding="utf-8")
    assert code == 0
    assert re.findall(r"\*\*(holds|holds in part|does not hold|undecided)\*\*", page)
    if part in PICTURES:
        assert (tmp_path / f"{part}.png").stat().st_size > 10_000


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
