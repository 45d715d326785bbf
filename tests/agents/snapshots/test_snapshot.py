"""What every snapshot keeps, kind by kind of posterior."""

import numpy as np
import pytest
from families import make_problems
from matplotlib.figure import Figure
from refusals import check_refusals
from scipy import stats
from surface import play, started

from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal
from bandit_gym.problem import BanditProblem, ContextualProblem

PROBLEMS = make_problems(num_arms=3)
KINDS = {
    "the conjugate posterior": ("exact", "conjugate", {}),
    "tables": ("exact", "grid", {}),
    "the posteriors of the mixture's components": ("exact", "mixture", {}),
    "8,192 draws of Markov chains": ("exact", "chains", {}),
    "weighted particles": ("smc", "grid", {"num_particles": 300}),
    "weighted draws": ("racing", "chains", {"proposal": "matched"}),
}


def make(source, num_envs=None):
    name, kind, options = KINDS[source]
    agent = started(name, PROBLEMS[kind], num_envs, **options)
    play(agent, 15)
    return agent


every_kind = pytest.mark.parametrize("source", KINDS)


def test_rewards_of_an_arm_without_a_proper_posterior_are_refused():
    problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)
    agent = started("exact", problem, prior="reference")
    agent.observe(0, 1.0)
    rows = [(3, "predictive must have proper posteriors, got none of arm")]
    check_refusals(lambda size: agent.posterior().predictive(size, seed=0), rows)
    assert agent.posterior().mean().tolist() == [1.0, np.inf]


NOT_ASKED = [
    ("quantile", "x", "p must be numbers, alone or in an array, got 'x'"),
    ("quantile", [[0.1], [0.2, 0.3]], "p must be numbers"),
    ("quantile", [0.5, np.nan], "p must have no NaN"),
    ("quantile", 1.0, "p must be above 0 and below 1, got 1.0"),
    ("interval", 0.0, "confidence must be a finite number above 0"),
    ("sample", 0, "size must be a positive integer, got 0"),
    ("density", None, "x must be numbers, alone or in an array, got None"),
    ("density", 10**400, "x must be numbers"),
    ("sample", 10**18, "size must be at most 333333333, got 1000000000000000000"),
    ("plot", 5, "ax must be an Axes, got 5"),
]
WITHOUT_PRIOR = "random", "ucb1", "kl_ucb", "ucb_tuned", "moss"


def test_what_cannot_be_asked_is_one_sentence():
    posterior = make("tables").posterior()
    check_refusals(lambda method, given: getattr(posterior, method)(given), NOT_ASKED)
    rows = [(name, TypeError, "asked of an agent with a prior, got") for name in WITHOUT_PRIOR]
    check_refusals(lambda name: started(name, PROBLEMS["conjugate"]).posterior(), rows)


@every_kind
def test_expected_loss_is_what_stopping_with_an_arm_loses_on_average(source):
    snapshot = make(source, 2).posterior()
    assert snapshot.source == source
    # Answers of formulas are exact, others rest on 250 independent draws at least.
    is_exact = "posterior" in source or source == "tables"
    draws = snapshot.sample(40_000 if is_exact else 4000, seed=3)  # (M, N, K)
    losses = draws.max(axis=-1, keepdims=True) - draws
    tolerance = 4 * losses.std(axis=0) / np.sqrt(40_000 if is_exact else 250)
    assert (np.abs(snapshot.expected_loss() - losses.mean(axis=0)) <= tolerance).all()


@pytest.mark.parametrize("method", ["conjugate", "grid"])
@pytest.mark.parametrize("shape", [1.2, 1.5, 3.0])
def test_expected_loss_reaches_into_heavy_tails(shape, method):
    problem = BanditProblem(Exponential(), InverseGamma(shape, 1.0), 3)
    snapshot = started("exact", problem, method=method).posterior()
    u, mean = np.linspace(-5, 200, 20_001), stats.invgamma(shape)
    below, above = mean.cdf(np.exp(u)), mean.sf(np.exp(u))
    expected = np.trapezoid(np.exp(u) * below * above * (1 + below), u)  # of F - F^3, in x = e^u
    found = snapshot.expected_loss()
    assert found == pytest.approx(expected, rel=1e-3) or snapshot.doubts
    assert (found > 0).all() and (method == "grid" or not snapshot.doubts)


@pytest.mark.parametrize(
    ("likelihood", "prior", "laws"),
    [
        (Poisson(), Gamma(0.1, [1.0, 1e-3]), stats.gamma(0.1, scale=[[1.0], [1e3]])),
        (Poisson(), Gamma([0.001, 2.0], 1.0), stats.gamma([[0.001], [2.0]])),
        (Exponential(), InverseGamma([0.9, 3.0], 1.0), stats.invgamma([[0.9], [3.0]])),
        (Exponential(), InverseGamma(0.03, 0.03), None),
    ],
)
def test_expected_loss_of_small_shapes_is_their_integral(likelihood, prior, laws):
    """Of F_a - F_1 F_2, in x = e^u; infinite against an arm without a mean."""
    snapshot = started("exact", BanditProblem(likelihood, prior, 2)).posterior()
    found, mean = snapshot.expected_loss(), snapshot.mean()
    is_finite = mean[::-1] < np.inf  # of the other arm
    assert np.isfinite(found).tolist() == is_finite.tolist()
    if laws is not None:
        u = np.linspace(-300, 60, 400_001)
        below = laws.cdf(np.exp(u))
        expected = np.trapezoid((below - below.prod(axis=0)) * np.exp(u), u, axis=1)
        np.testing.assert_allclose(found[is_finite], expected[is_finite], rtol=1e-5)


def test_answers_are_copies():
    problem = ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 2, 2)
    snapshot = started("exact", problem).posterior(np.eye(2))
    snapshot.mean()[:] = 7.0
    assert snapshot.mean().tolist() == [0.0, 0.0]


def test_the_loss_to_an_arm_without_a_finite_mean_is_infinite():
    problem = BanditProblem(Exponential(), InverseGamma(3.0, 1.0), 3)
    data = [0, 3, 3], [0, 1.0, 2.0]
    snapshot = started("exact", problem, None, *data, prior="reference").posterior()
    assert np.isinf(snapshot.expected_loss()).tolist() == [False, True, True]
    assert snapshot.quantile([]).shape == (0, 3)
    with pytest.raises(AttributeError, match="coefficients must be asked of arms with features"):
        snapshot.coefficients.mean()


def draw(name, num_arms):
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms)
    agent = started(name, problem, 2, np.full(num_arms, 9), np.arange(num_arms) % 10)
    return agent, agent.posterior().plot(Figure().subplots(), lane=1)


def test_few_arms_are_drawn_as_densities():
    _, ax = draw("exact", 3)
    assert len(ax.lines) == 3 and ax.get_ylabel() == "posterior density"
    x, y = ax.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.005)  # 0.4 % may be outside
    assert ax.get_xlim() == (0.0, 1.0)  # the ends of the support, which no density is cut before


@pytest.mark.parametrize(("name", "num_arms"), [("exact", 12), ("smc", 3)])
def test_many_arms_and_draws_are_shown_as_sorted_intervals(name, num_arms):
    agent, ax = draw(name, num_arms)
    x, y = ax.lines[0].get_data()
    assert (np.diff(x) >= 0).all() and y.tolist() == list(range(num_arms))
    best = int(agent.posterior().mean()[1].argmax())
    assert ax.get_yticklabels()[-1].get_text() == f"arm {best}" or x[-1] == x[-2]


def make_snapshot(num_arms=2, num_envs=None):
    problem, data = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms), np.arange(num_arms)
    return started("exact", problem, num_envs, data, data // 2).posterior()


def test_repr_and_html_are_a_small_table():
    # Beta(1, 1) and Beta(1, 2): P(best) of the second is the integral of x (2 - 2 x), 1 / 3
    assert repr(make_snapshot()).splitlines() == [
        "Posterior of 2 arms after 1 pull, from the conjugate posterior",
        " arm pulls   mean              95 % P(best)",
        "   0     0    0.5    [0.025, 0.975]   0.667",
        "   1     1 0.3333 [0.01258, 0.8419]   0.333",
    ]
    html = make_snapshot()._repr_html_()
    assert html.count("</tr>") == 3 and "<td>0.667</td>" in html


def test_repr_says_which_lane_it_shows_and_of_many_arms_the_likeliest_and_how_many_more():
    assert "lane 0 of 3" in repr(make_snapshot(num_envs=3))
    lines = repr(make_snapshot(30)).splitlines()
    assert len(lines) == 23 and lines[-1] == "and 10 arms less likely to be the best"
