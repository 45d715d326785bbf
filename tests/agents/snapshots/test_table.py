import numpy as np

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem


def make_snapshot(num_arms=2, num_envs=None):
    agent = ExactThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms))
    agent.reset(num_envs, seed=0)
    agent.warm_start(np.arange(num_arms), np.arange(num_arms) // 2)
    return agent.posterior()


def test_repr_is_a_small_table():
    # Beta(1, 1) and Beta(1, 2): P(best) of the second is the integral of x (2 - 2 x), 1 / 3
    assert repr(make_snapshot()).splitlines() == [
        "Posterior of 2 arms after 1 pull, from the conjugate posterior",
        " arm pulls   mean              95 % P(best)",
        "   0     0    0.5    [0.025, 0.975]   0.667",
        "   1     1 0.3333 [0.01258, 0.8419]   0.333",
    ]


def test_repr_of_many_lanes_says_which_it_shows():
    assert "lane 0 of 3" in repr(make_snapshot(num_envs=3))


def test_repr_of_many_arms_shows_the_likeliest_and_counts_the_rest():
    lines = repr(make_snapshot(30)).splitlines()
    assert len(lines) == 23 and lines[-1] == "and 10 arms less likely to be the best"


def test_html_has_a_row_an_arm():
    html = make_snapshot()._repr_html_()
    assert html.count("</tr>") == 3 and "<td>0.667</td>" in html
