import numpy as np
import pytest
from matplotlib.figure import Figure

from agents import ExactThompson, SMCThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem


def plot(kind, num_arms):
    agent = kind(BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms))
    agent.reset(2, seed=0)
    agent.warm_start(np.full(num_arms, 9), np.arange(num_arms) % 10)
    return agent, agent.posterior().plot(Figure().subplots(), lane=1)


def test_few_arms_are_drawn_as_densities():
    _, ax = plot(ExactThompson, 3)
    assert len(ax.lines) == 3 and ax.get_ylabel() == "posterior density"
    x, y = ax.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.005)  # 0.4 % may be outside
    assert ax.get_xlim() == (0.0, 1.0)  # the ends of the support, which no density is cut before


@pytest.mark.parametrize(("kind", "num_arms"), [(ExactThompson, 12), (SMCThompson, 3)])
def test_many_arms_and_draws_are_shown_as_sorted_intervals(kind, num_arms):
    agent, ax = plot(kind, num_arms)
    x, y = ax.lines[0].get_data()
    assert (np.diff(x) >= 0).all() and y.tolist() == list(range(num_arms))
    best = int(agent.posterior().mean()[1].argmax())
    assert ax.get_yticklabels()[-1].get_text() == f"arm {best}" or x[-1] == x[-2]
