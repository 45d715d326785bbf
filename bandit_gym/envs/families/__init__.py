"""The registered environments, one file each: `poisson.py` is `PoissonBandit-v0`.

A file declares one subclass of `FamilyEnv`, whose docstring is the manual, and `make_vec`. A new
file is registered by being here.
"""
