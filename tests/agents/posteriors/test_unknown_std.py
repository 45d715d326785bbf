"""Gaussian rewards of unknown deviation, `Gaussian(std=None)`: formulas, quadrature, refusals."""

import numpy as np
import pytest
from refusals import check_refusals
from scipy import integrate, stats
from surface import started

import bandit_gym as bg
from agents import AGENTS, BayesUCB, ExactThompson, Greedy, Thompson, load, make_agent, oracle
from agents.posteriors.base import Posterior
from bandit_gym.empirical_bayes import fit_prior
from bandit_gym.likelihoods import Gaussian
from bandit_gym.logs import Log
from bandit_gym.priors import Normal, NormalInverseGamma
from bandit_gym.problem import BanditProblem, ContextualProblem

PRIOR = NormalInverseGamma([0.5, -1.0, 0.0], [2.0, 0.1, 1.0], 1.5, [0.7, 2.0, 1.0])
PROBLEM = BanditProblem(Gaussian(std=None), PRIOR, 3)
SHARED = NormalInverseGamma([0.5, -1.0, 0.0], [2.0, 0.1, 1.0], 1.5, 0.7)
WITH_FEATURES = ContextualProblem(Gaussian(std=None), SHARED, 3, 3)
ARMS = np.array([0, 1, 0, 2, 1, 1, 0, 0, 2, 0])
REWARDS = np.array([1.2, -0.3, 0.4, 2.0, 0.1, -1.5, 0.9, 3.1, 1.8, -0.2])
ROUNDING = 1e-12
"""Relative: of some twenty operations, far above their 1e-15."""

WEIGHTS = {
    "all": ({}, np.ones(10)),
    "discount": ({"discount": 0.8}, 0.8 ** np.arange(9.0, -1, -1)),
    "window": ({"window": 4}, np.arange(10) >= 6),
}


def taught(problem, rows, rewards=REWARDS, **options):
    """Return an agent that has observed rewards, each of an arm or of arm 0 with these features."""
    agent = started("exact", problem, **options)
    for row, reward in zip(rows, rewards, strict=False):
        told = {"observation": row} if np.ndim(row) else {}
        agent.observe(0 if told else row, reward, **told)
    return agent


def t_posteriors(weights, arms=ARMS, rewards=REWARDS):
    """Return the posteriors of the means as SciPy has them, by sums in place of updates."""
    df, loc, scale = np.empty((3, 3))
    for arm in range(3):
        w = weights * (arms == arm)
        mean, k, a, b = (np.broadcast_to(x, 3)[arm] for x in vars(PRIOR).values())
        n, average = w.sum(), (w @ rewards) / max(w.sum(), 1e-300)
        squares = w @ np.square(rewards - average)
        loc[arm] = (k * mean + n * average) / (k + n)
        rate = b + (squares + k * n / (k + n) * (average - mean) ** 2) / 2
        df[arm], scale[arm] = 2 * a + n, np.sqrt(rate / ((a + n / 2) * (k + n)))
    return stats.t(df, loc, scale)


@pytest.mark.parametrize("name", WEIGHTS)
def test_posteriors_are_student_t_also_of_weighted_rewards(name):
    options, weights = WEIGHTS[name]
    agent = started("exact", PROBLEM, 2, **options)
    for arm, reward in zip(ARMS, REWARDS, strict=True):
        agent.observe([arm, 0], [reward, 0.0])
    snapshot, known = agent.posterior(), t_posteriors(weights)
    np.testing.assert_allclose(snapshot.mean()[0], known.mean(), rtol=ROUNDING)
    np.testing.assert_allclose(snapshot.std()[0], known.std(), rtol=ROUNDING)
    np.testing.assert_allclose(snapshot.quantile(0.9)[0], known.ppf(0.9), rtol=1e-10)
    np.testing.assert_allclose(snapshot.density([0.3])[0, 0], known.pdf(0.3), rtol=ROUNDING)
    below, moment = snapshot.belief.lower_partial_moment(np.full((2, 3), 0.3))
    np.testing.assert_allclose(below[0], known.cdf(0.3), rtol=1e-10)
    for arm, parameters in enumerate(zip(*known.args, strict=True)):
        frozen = stats.t(*parameters)  # by parts, the integral of the distribution function
        integral = 0.3 * frozen.cdf(0.3) - frozen.expect(ub=0.3)
        np.testing.assert_allclose(moment[0, arm], integral, rtol=1e-6)  # of SciPy's quadrature


def test_there_is_no_expected_loss_without_an_expectation():
    """Of one degree of freedom or less: .8 of the second arm, which has no rewards."""
    problem = BanditProblem(Gaussian(None), NormalInverseGamma(0.0, 1.0, 0.4, 1.0), 2)
    agent = started("exact", problem)
    agent.warm_start([3, 0], [2.0, 0.0], squares=[2.0, 0.0])
    assert agent.posterior().expected_loss().tolist() == [np.inf, np.inf]
    agent.warm_start([0, 1], [0.0, 0.5], squares=[0.0, 0.25])
    assert np.isfinite(agent.posterior().expected_loss()).all()


@pytest.mark.parametrize(("shape", "pulls"), [(0.001, 1), (0.05, 1), (0.6, 0), (3.0, 5)])
def test_expected_loss_reaches_into_both_tails(shape, pulls):
    """Of equal arms about 0 it is 2 w int_0^inf S(1 - S), S = P(T > x), whose integral is known."""
    problem = BanditProblem(Gaussian(None), NormalInverseGamma(0.0, 1.0, shape, 1.0), 2)
    agent = started("exact", problem)
    agent.warm_start([pulls] * 2, [0.0] * 2, squares=[0.0] * 2)
    df, u = 2 * shape + pulls, np.linspace(-40.0, 60.0, 20_001)  # x = e^u; S^2 x < e^-60 beyond
    above, squares = stats.t(df), stats.t(df).sf(np.exp(u)) ** 2 * np.exp(u)
    right = df / (df - 1) * above.pdf(0.0) - np.trapezoid(squares, u)
    right *= 2 / np.sqrt((shape + pulls / 2) * (1 + pulls))
    np.testing.assert_allclose(agent.posterior().expected_loss(), right, rtol=1e-6)  # as promised


@pytest.mark.parametrize("pulls", [10**12, 10**15])
def test_posteriors_of_very_many_pulls_are_normal(pulls):
    """Up to O(1 / pulls); logarithms of gamma functions cancelled, .9998 and 2.9 of a density."""
    problem = BanditProblem(Gaussian(None), NormalInverseGamma(0.0, 1.0, 3.0, 2.0), 2)
    agent, average = started("exact", problem), 0.5 / pulls**0.5
    sums = np.array([0.0, average * pulls])
    agent.warm_start([pulls] * 2, sums, squares=pulls + sums**2 / pulls)
    snapshot = agent.posterior()
    peak = pulls**0.5 * snapshot.density([0.0])[0, 0]
    np.testing.assert_allclose(peak / pulls, 1 / np.sqrt(2 * np.pi), rtol=1e-9)
    best = snapshot.best_arm_probabilities()[1]
    assert abs(best - stats.norm.cdf(0.5 / 2**0.5)) < 1e-6 and not snapshot.doubts


def test_squares_of_rewards_far_from_zero_keep_their_digits():
    far = 1e8 + REWARDS  # multiples of 1.5e-8, so that centred squares have eight digits
    one_by_one, from_log = taught(PROBLEM, ARMS, far), started("exact", PROBLEM)
    from_log.observe_log(Log(ARMS, far, (0, 1, 2)))
    squares = [far[ARMS == arm].var() * (ARMS == arm).sum() for arm in range(3)]
    for agent in (one_by_one, from_log):
        np.testing.assert_allclose(agent.evidence.squares[0], squares, rtol=1e-6)


def test_totals_and_rewards_in_a_window_make_one_posterior():
    counts, sums = np.bincount(ARMS), np.bincount(ARMS, REWARDS)
    squares = np.bincount(ARMS, REWARDS**2)
    agent = taught(PROBLEM, [0, 1, *ARMS[:2]], [9.0, 9.0, *REWARDS[:2]], window=3)
    agent.warm_start(counts, sums, squares=squares)
    for arm, reward in zip(ARMS[:5], REWARDS[:5], strict=True):
        agent.observe(arm, reward)
    known = t_posteriors(np.ones(13), np.append(ARMS, ARMS[2:5]), np.append(REWARDS, REWARDS[2:5]))
    np.testing.assert_allclose(agent.posterior().std(), known.std(), rtol=ROUNDING)


@pytest.mark.parametrize(
    ("shape", "counts", "available"),
    [(0.3, [0, 1, 2], None), (1.0, [3, 40, 5], [True, False, True]), (20.0, [900, 0, 300], None)],
)
def test_propensities_are_those_of_quadrature(shape, counts, available, rng):
    problem = BanditProblem(Gaussian(None), NormalInverseGamma(0.2, 0.05, shape, 2.0), 3)
    totals = [rng.normal(0.1, 1.3, n) for n in counts]
    sums, squares = ([(x**power).sum() for x in totals] for power in (1, 2))
    agent = started("exact", problem)
    agent.warm_start(counts, sums, squares=squares)
    known = oracle.action_probabilities(problem, counts, sums, squares=squares)
    np.testing.assert_allclose(agent.action_probabilities(), known, atol=1e-6)
    if available:  # two arms: which of two means is larger follows from their distributions
        pair = agent.action_probabilities(available=available)
        draws = agent.posterior().sample(100_000, seed=1)
        share = (draws[:, 0] > draws[:, 2]).mean()
        assert pair[1] == 0 and abs(pair[0] - share) < 4 * 0.5 / 100_000**0.5


def regression(features, rewards, weights):
    """Return mean, precision, a and b of the normal-inverse-gamma posterior.

    As bayesianbandits' NormalInverseGammaRegressor has them, with its mu, lam, a and b.
    """
    mean, precision = np.array(SHARED.mean), np.diag(SHARED.precision)
    new = precision + features.T @ (weights[:, None] * features)
    right = precision @ mean + features.T @ (weights * rewards)
    found = np.linalg.solve(new, right)
    squares = weights @ rewards**2 + mean @ precision @ mean - found @ right
    return found, new, SHARED.shape + weights.sum() / 2, SHARED.scale + squares / 2


@pytest.mark.parametrize("name", WEIGHTS)
def test_coefficients_are_those_of_the_conjugate_regression(name, rng):
    options, weights = WEIGHTS[name]
    features = rng.standard_normal((10, 3))
    features[[2, 7, 9]] = features[1]  # rows that collapse
    late = taught(WITH_FEATURES, features, **options)
    agent = taught(WITH_FEATURES, features[:5], **options)
    agent.posterior().coefficients.mean()  # from here on roots are updated
    for row, reward in zip(features[5:], REWARDS[5:], strict=True):
        agent.observe(0, reward, observation=row)
    mean, precision, a, b = regression(features, REWARDS, weights)
    known = stats.t(2 * a, mean, np.sqrt(b / a * np.diag(np.linalg.inv(precision))))
    for snapshot in (agent.posterior().coefficients, late.posterior().coefficients):
        np.testing.assert_allclose(snapshot.mean(), mean, atol=1e-8)
        np.testing.assert_allclose(snapshot.std(), known.std(), rtol=1e-8)
        np.testing.assert_allclose(snapshot.quantile(0.05), known.ppf(0.05), rtol=1e-8)
        np.testing.assert_allclose(snapshot.density([0.3])[0], known.pdf(0.3), rtol=1e-8)


def test_propensities_of_two_arms_with_features_are_those_of_quadrature(rng):
    prior = NormalInverseGamma([0.5, -1.0], 2.0, 1.5, 0.7)
    problem = ContextualProblem(Gaussian(None), prior, 2, 2)
    rows, arms = rng.standard_normal((9, 2)), np.diag([1.0, -0.4])
    agent, data = taught(problem, rows), (rows, REWARDS[:9])
    known, error = oracle.action_probabilities_with_error(problem, data, arms)
    np.testing.assert_allclose(agent.action_probabilities(arms), known, atol=1e-6 + error)


def test_propensities_of_arms_that_only_the_deviation_couples(rng):
    """Given g they are normal and independent; integrated here over quantiles of g."""
    rows, arms = np.repeat(np.eye(3), 3, axis=0), np.diag([1.0, -0.4, 2.0])
    agent = taught(WITH_FEATURES, rows)
    mean, precision, a, b = regression(rows, REWARDS[:9], np.ones(9))
    nodes, shares = np.polynomial.legendre.leggauss(200)
    stretched = np.sqrt(b / stats.gamma(a).ppf((nodes + 1) / 2))[:, None]
    scale = np.abs(np.diag(arms)) / np.sqrt(np.diag(precision))
    means = np.tile(np.diag(arms) * mean, (200, 1))
    known = shares / 2 @ bg.best_arm_probabilities(("normal", means, stretched * scale))
    np.testing.assert_allclose(agent.action_probabilities(arms), known, atol=1e-6)


@pytest.mark.parametrize("shape", [0.03, 0.001])
def test_propensities_under_a_vague_prior_are_those_of_student_t(shape):
    """Before any reward, g is 0 to a computer with probability 0.1 and 0.5."""
    prior = NormalInverseGamma([3.0, 0.0, 1.0], 1.0, shape, shape)
    agent = started("exact", ContextualProblem(Gaussian(None), prior, 3, 3), 50)
    shown = [np.tile(each, (50, 1, 1)) for each in (np.eye(3), np.diag([0.0, 1.0, 1.0]))]
    found = agent.action_probabilities(shown[0], available=[True, True, False])
    gap, _ = integrate.quad(stats.t(2 * shape).pdf, 0.0, 3.0 / 2**0.5, epsabs=1e-10)
    np.testing.assert_allclose(found, np.tile([0.5 + gap, 0.5 - gap, 0.0], (50, 1)), atol=1e-6)
    assert {*agent.act(shown[1])} == {0, 1, 2}
    for each in shown:
        assert (agent.posterior(each).expected_loss() == np.inf).all()
    assert not agent.posterior(np.ones((50, 3, 3))).expected_loss().any()  # of equal arms


def test_propensities_by_a_pool_are_within_their_errors(rng):
    arms, agent = rng.standard_normal((3, 3)), taught(WITH_FEATURES, rng.standard_normal((10, 3)))
    found, errors = agent.action_probabilities(arms, return_error=True)
    draws = agent.posterior(arms).sample(100_000, seed=2)
    shares = np.bincount(draws.argmax(axis=1), minlength=3) / 100_000
    assert (abs(found - shares) < 4 * errors + 4 * 0.5 / 100_000**0.5).all()


def test_next_rewards_have_the_deviation_that_is_left(rng):
    """The next reward of an arm is t with the scale of its mean times sqrt(1 + k_n)."""
    agent, size = taught(PROBLEM, ARMS), 50_000
    df, loc, scale = t_posteriors(np.ones(10)).args
    known = stats.t(df, loc, scale * np.sqrt(1 + np.array(PRIOR.precision) + np.bincount(ARMS)))
    levels = known.cdf(agent.posterior().predictive(size, seed=3))
    assert (stats.kstest(levels, "uniform", axis=0).statistic < 1.95 / size**0.5).all()  # p = .001


def test_each_reset_draws_deviations_and_lanes_are_alike():
    single, lanes = (
        make("GaussianBandit-v0", num_arms=2, std=None, **options)
        for make, options in ((bg.make, {}), (bg.make_vec, {"num_envs": 2}))
    )
    _, info = single.reset(seed=5)
    _, infos = lanes.reset(seed=5)
    assert (infos["stds"][0] == info["stds"]).all()
    assert (infos["stds"][0] != infos["stds"][1]).all()
    rewards = np.array([single.step(0)[1] for _ in range(2000)])
    spread = np.std(rewards - info["means"][0]) / info["stds"][0]
    assert abs(spread - 1) < 4 / (2 * 2000) ** 0.5
    assert (single.reset(options={"means": [0.0, 1.0]})[1]["stds"] != info["stds"]).all()


def test_every_agent_plays_or_says_that_it_cannot():
    timed = "moss", "knowledge_gradient", "information_relaxation", "finite_horizon_gittins"
    played = set()
    for name in {*AGENTS} - {"laplace", "lin_ucb", "racing_paper"}:
        options = {"horizon": 9} if name in (*timed, "optimal") else {}
        try:
            agent = make_agent(name, PROBLEM, **options)
        except ValueError as error:
            assert "std" in str(error) and "takes_squares" in str(error)
            continue
        agent.reset(2, seed=0)
        agent.observe(agent.act(), [1.0, 2.0])
        assert agent.action_probabilities().shape == (2, 3)
        played.add(name)
    assert {"exact", "thompson", "greedy", "bayes_ucb", "top_two"} <= played


def test_saved_agents_go_on(tmp_path):
    window, discount, arms = {"window": 3}, {"discount": 0.9}, np.eye(3)
    cases = (PROBLEM, window), (WITH_FEATURES, window), (WITH_FEATURES, discount)
    for problem, options in cases:
        agent = started("exact", problem, **options)
        for reward in REWARDS:
            agent.observe(agent.act(arms), reward)
        agent.save(tmp_path / "agent.npz")
        twin = load(tmp_path / "agent.npz")
        for reward in REWARDS[::-1]:
            for one in (agent, twin):
                one.observe(one.act(arms), reward)
            one, other = (each.posterior(arms) for each in (agent, twin))
            assert (one.mean() == other.mean()).all() and (one.std() == other.std()).all()


def test_more_arms_come_with_their_own_prior():
    agent = taught(PROBLEM, [0], [2.0])
    more = agent.with_arms(4, NormalInverseGamma(3.0, 1.0, 2.0, 1.0))
    more.observe(3, 3.0)
    np.testing.assert_allclose(more.posterior().mean()[[0, 3]], [(1.0 + 2.0) / 3.0, 3.0])
    apart = NormalInverseGamma(0.0, 1.0, 2.0, 1.0)
    shown = ContextualProblem(Gaussian(None), apart, 2, 4, layout="disjoint")
    more = started("exact", shown).with_arms(3, NormalInverseGamma(3.0, 1.0, 2.0, 1.0))
    np.testing.assert_allclose(more.posterior().coefficients.mean(), [0, 0, 0, 0, 3, 3])


class Unaware(Posterior):
    """A user's posterior that knows nothing of squares."""

    def __init__(self, problem):
        self.problem = problem

    def update(self, rng, evidence):
        self.shape = evidence.counts.shape

    def sample(self, rng):
        return rng.standard_normal(self.shape)


ROW = np.eye(3)[:1], [1.0]
LISTED, UNAWARE = NormalInverseGamma(shape=[1.0, 2.0, 3.0]), Unaware(PROBLEM)
REFUSED = [
    (lambda: BanditProblem(Gaussian(None), Normal(0, 1), 2), "NormalInverseGamma", "Normal("),
    (lambda: BanditProblem(Gaussian(), NormalInverseGamma(), 2), "Gaussian(std=None)", "1.0"),
    (lambda: ContextualProblem(Gaussian(None), LISTED, 2, 3), "prior", "one shape", "2.0"),
    (lambda: Thompson(PROBLEM, posterior=UNAWARE), "posterior", "takes_squares", "Unaware"),
    (lambda: Greedy(PROBLEM, posterior="smc"), "posterior", "takes_squares", "ParticlePosterior"),
    (lambda: ExactThompson(PROBLEM, method="grid"), "method", "'conjugate'", "'grid'"),
    (lambda: BayesUCB(PROBLEM, prior="reference"), "prior", "unknown std", "'reference'"),
    (lambda: fit_prior(Gaussian(None), [1, 2], [1.0, 2.0]), "likelihood", "known std", "None"),
    (lambda: PROBLEM.likelihood.reward_std(0.0), "likelihood", "known std", "None"),
    (lambda: oracle.action_probabilities(PROBLEM, [1, 0, 0], [1, 0, 0]), "squares", "None"),
    (
        lambda: oracle.action_probabilities(WITH_FEATURES, ROW, np.eye(3), squares=[1.0, 0, 0]),
        "squares must be left out where arms have features",
        "[1.0, 0, 0]",
    ),
]


def test_what_does_not_go_with_an_unknown_std_is_refused():
    check_refusals(lambda call: call(), REFUSED)


def test_impossible_squares_are_refused_and_nothing_is_learned():
    agent = started("exact", PROBLEM)
    known = started("exact", BanditProblem(Gaussian(), Normal(0, 1), 3))
    rows = [
        (agent, None, "squares must be given", "None"),
        (agent, [4.4, 0, 0], "squares", "sums^2 / counts", "4.4", "arm 0"),
        (agent, [5.0, 1.0, 0], "squares", "1.0", "arm 1"),
        (agent, [np.nan, 0, 0], "squares", "finite", "nan"),
        (known, [5.0, 0, 0], "squares must be left out"),
    ]
    data = [2, 0, 0], [3.0, 0.0, 0.0]
    check_refusals(lambda one, squares: one.warm_start(*data, squares=squares), rows)
    far = 1e8 + REWARDS[:2]  # squares near 2e16 are spaced by 4; q = 1.1, b = 0.7
    totals = [2, 0, 0], [far.sum(), 0.0, 0.0]
    hidden = [(far @ far, 0.0, 0.0), "squares must be spaced", "observe single rewards"]
    check_refusals(lambda squares: agent.warm_start(*totals, squares=squares), [hidden])
    vast = 1e200, "reward must be a number from -1"
    check_refusals(lambda reward: agent.observe(0, reward), [vast])
    assert not any(one.counts.any() for one in (agent, known)) and not agent.evidence.squares.any()
