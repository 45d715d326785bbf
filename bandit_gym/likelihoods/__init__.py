"""Distributions of a reward given its arm's mean, and their base class."""

from bandit_gym.likelihoods.built_in import *
from bandit_gym.likelihoods.built_in import is_binary as is_binary
from bandit_gym.likelihoods.checker import check_likelihood
