"""Argument checks and their messages: the only home of both.

A value of the wrong kind raises `TypeError`, a value out of range `ValueError`, an action
`gymnasium.error.InvalidAction`. Checks return the value in the one form that the rest of the
package uses, so that inner functions need not look again.
"""

from bandit_gym.checks.arguments import (
    as_array,
    as_numbers,
    call,
    check_callback,
    check_choice,
    check_integer,
    check_keys,
    check_numbers,
    check_object,
    check_options,
    check_real,
    check_seed,
    message,
)
from bandit_gym.checks.fit import check_fit, find_misbelief, find_problem
from bandit_gym.checks.lanes import (
    check_actions,
    check_arms,
    check_choices,
    check_mask,
    check_rewards,
    check_statistics,
)
from bandit_gym.checks.settings import (
    MOST_DEPENDENT_ARMS,
    NAMED,
    check_arguments,
    check_covariance,
    check_file,
    check_folder,
    check_parameter,
    check_path,
    check_same_length,
    load_named,
    make_named,
    split_name,
)
