"""The environments, single and natively vectorised.

The registered ids are made with `gymnasium.make` and `gymnasium.make_vec`; the two classes here
take any `BanditProblem`, with a likelihood or a prior of one's own.
"""

from bandit_gym.envs.bandit import BanditEnv, BanditVectorEnv
