"""What every room uses: checks of arguments with their messages, and array types.

A value of the wrong kind raises `TypeError`, a value out of range `ValueError`, an action
`gymnasium.error.InvalidAction`. Checks return the value in the one form that the rest of the
package uses, so that inner functions need not look again.
"""

from bandit_gym.checks.arguments import *
from bandit_gym.checks.interaction import *
