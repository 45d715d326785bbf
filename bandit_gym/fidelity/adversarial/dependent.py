"""Arms that depend on each other a priori, over all four likelihoods."""

from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.priors import Camps, OneFactor
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import HierarchicalBeta


def only_one_good(num_arms: int) -> Camps:
    """Return the law of arms of which exactly one is good, each as likely."""
    laws = [
        Beta(*(tuple(a if i == j else b for j in range(num_arms)) for a, b in ((80, 20), (20, 80))))
        for i in range(num_arms)
    ]
    return Camps(laws, [1 / num_arms] * num_arms)


CASES = (
    Case("Bernoulli, rare camp of all arms", "all arms lie in a camp of prior probability 0.002",
         Bernoulli(), Camps([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [0.998, 0.002]),
         (30, 1000, 0), (30, 960, 0)),
    Case("Bernoulli, one of six is good", "six camps, two of them left", Bernoulli(),
         only_one_good(6), (3, 3, 10, 10, 0, 10), (2, 2, 2, 3, 0, 2)),
    Case("Bernoulli, either or", "two camps of equal weight that exclude each other", Bernoulli(),
         Camps([TruncatedNormal((0.8, 0.2), 0.02), TruncatedNormal((0.2, 0.8), 0.02)], [0.5, 0.5]),
         (2, 2), (1, 1)),
    Case("Bernoulli, hierarchy", "the data belong to a level of probability 0.001", Bernoulli(),
         HierarchicalBeta([2.0, 300.0], [8.0, 30.0], [0.999, 0.001]),
         (100, 100, 4, 0), (90, 88, 4, 0)),
    Case("Bernoulli, near-singular, correlation 0.9999", "ten arms all but equal", Bernoulli(),
         OneFactor(0.5, (0.3,) * 10, 0.003, 0.0, 1.0), (500,) * 5 + (0,) * 5,
         (255, 250, 245, 260, 240) + (0,) * 5),
    Case("Bernoulli, near-singular, opposed", "two arms that add up to 1 but for 0.003",
         Bernoulli(), OneFactor(0.5, (0.3, -0.3), 0.003, 0.0, 1.0), (50, 3), (26, 0)),
    Case("Bernoulli, near-singular, 1e6 pulls", "one arm's data tell of all others", Bernoulli(),
         OneFactor(0.5, (0.3, 0.3, 0.3003, -0.1), 1e-4, 0.0, 1.0), (10**6, 0, 0, 0),
         (600_000, 0, 0, 0)),
    Case("exponential, rare camp of all arms", "all arms lie in a camp of probability 0.001",
         Exponential(), Camps([InverseGamma(30.0, 29.0), InverseGamma(300.0, 1500.0)],
         [0.999, 0.001]), (40, 30, 0), (190.0, 160.0, 0.0)),
    Case("exponential, prior against data", "two camps, 20 prior deviations apart", Exponential(),
         OneFactor(10.0, (0.5,) * 3, 0.15, 0.0, 30.0), (36, 36, 18), (25.2, 18.0, 7.2)),
    Case("Gaussian, rare camp of all arms", "all arms lie in a camp of probability 1e-4",
         Gaussian(), Camps([Normal(0.0, 0.1), Normal(5.0, 0.1)], [0.9999, 0.0001]),
         (3, 2, 0), (15.0, 10.2, 0.0)),
    Case("Gaussian, near-singular, correlation 0.999999", "arms all but equal in a wide box",
         Gaussian(), OneFactor(0.0, (1.0,) * 4, 1e-3, -9.0, 9.0), (10_000, 10_000, 5, 0),
         (3000.0, 3010.0, 1.0, 0.0)),
    Case("Gaussian, near-singular, prior against data", "10 standard errors apart", Gaussian(),
         OneFactor(0.0, (0.3,) * 5, 0.01, -9.0, 9.0), (1000,) * 5,
         (3300.0, 3310.0, 3290.0, 3305.0, 3320.0)),
    Case("Poisson, rare camp of all arms", "all arms lie in a camp of probability 0.001",
         Poisson(), Camps([Gamma(100.0, 50.0), Gamma(900.0, 100.0)], [0.999, 0.001]),
         (10, 20, 0), (88, 182, 0)),
)  # fmt: skip
