"""Nobody is wrong in silence, at a small scale; `docs/adversarial.md` has the full table."""

import numpy as np
import pytest

from bandit_gym.fidelity.adversarial import CASES
from bandit_gym.fidelity.judge import WRONG, judge
from bandit_gym.fidelity.settings import SETTINGS

SCALE = 0.01
NAMES = (
    "Bernoulli, rare camp",
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


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.label)
@pytest.mark.parametrize("name", NAMES)
def test_agent_is_right_or_says_that_it_is_not(name, setting):
    case = next(each for each in CASES if each.name == name)
    found = judge(setting, case, scale=SCALE)
    assert found.verdict != WRONG, found


def test_set_has_cases_of_every_likelihood_size_and_age():
    assert len({case.name for case in CASES}) == len(CASES) >= 25
    assert {case.likelihood.name for case in CASES} == {
        "bernoulli", "exponential", "gaussian", "poisson"
    }  # fmt: skip
    sizes = {len(case.counts) for case in CASES}
    assert (min(sizes), max(sizes)) == (2, 100)
    pulls = [np.max(case.counts) for case in CASES]
    assert (min(pulls), max(pulls)) == (0, 10**9)
