"""The adversarial set: priors and histories chosen to be hard, over all four likelihoods."""

from bandit_gym.fidelity.adversarial import bernoulli, dependent, exponential, gaussian, poisson

CASES = (
    *bernoulli.CASES,
    *exponential.CASES,
    *gaussian.CASES,
    *poisson.CASES,
    *dependent.CASES,
)
