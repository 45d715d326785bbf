"""`python -m bandit_gym` is the command `bandit-gym`."""

import sys

from bandit_gym.cli import main

if __name__ == "__main__":  # worker processes import this module as well
    sys.exit(main())
