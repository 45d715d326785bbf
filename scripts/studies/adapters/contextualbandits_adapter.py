"""contextualbandits: LogisticTS and LinTS, with a regression for each arm.

The covariance is taken as it is, without a prior for arms with few data, an intercept or threads.
"""

from contextualbandits.online import LinTS, LogisticTS
from protocol import serve


def learn(case):
    """Fit all rows at once; draw coefficients, or predictions from an interval."""
    name, _, drawn = case.sampler.partition(", ")
    options = {"lambda_": float(case.prior["std"]) ** -2, "beta_prior": None}
    options |= {"sample_from": drawn, "fit_intercept": False, "njobs": 1, "random_state": case.seed}
    if name == "LinTS":
        bandit = LinTS(case.num_arms, **options)
    else:
        bandit = LogisticTS(case.num_arms, multiplier=1.0, **options)
    bandit.fit(case.visitors, case.arms, case.rewards)
    return lambda: bandit.predict(case.visitor[None])[0]


serve(learn)
