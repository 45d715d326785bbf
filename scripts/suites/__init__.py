"""How the suites of `bandit_gym/fidelity/suites/` were made: worlds, histories, exact answers."""
