"""The environments, single and natively vectorised.

The registered ids are made with `gymnasium.make` and `gymnasium.make_vec`; the two classes here
take any `BanditProblem`, with a user's likelihood or prior.
"""

from bandit_gym.envs.bandit import BanditEnv, BanditVectorEnv
from bandit_gym.envs.contextual import (
    ContextualBanditEnv,
    ContextualBanditVectorEnv,
    TableBanditEnv,
    TableBanditVectorEnv,
)
