"""Bayesian bandits for Gymnasium: importing this package registers its environments.

The import stays light: environments, the harness and their heavy dependencies load on first use.
"""

from bandit_gym.registration import ENV_IDS, register_envs

__all__ = ["ENV_IDS", "__version__", "register_envs"]
__version__ = "0.1.0"

register_envs()
