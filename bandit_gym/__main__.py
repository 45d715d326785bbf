"""`python -m bandit_gym` is the command `bandit-gym`."""

import sys

if __name__ == "__main__":  # worker processes import this module as well
    from bandit_gym.cli import main

    sys.exit(main())
