"""Argument checks and their messages: the only home of both.

A value of the wrong kind raises `TypeError`, a value out of range `ValueError`, an action
`gymnasium.error.InvalidAction`. Checks return the value in the one form that the rest of the
package uses, so that inner functions need not look again.
"""

from bandit_gym.checks.arguments import (
    check_callback,
    check_choice,
    check_integer,
    check_keys,
    check_object,
    check_options,
    check_real,
    check_seed,
)
from bandit_gym.checks.arrays import check_kind, check_numbers
from bandit_gym.checks.calls import call
from bandit_gym.checks.fit import check_fit, find_misbelief, find_problem, knows_of_arms
from bandit_gym.checks.lanes import (
    check_actions,
    check_arms,
    check_available,
    check_choices,
    check_law,
    check_mask,
    check_rewards,
    check_rewards_add_up,
    check_statistics,
    check_totals,
)
from bandit_gym.checks.logs import Log, check_log, check_log_adds_up
from bandit_gym.checks.messages import message
from bandit_gym.checks.naming import (
    NAMED,
    check_arguments,
    load_named,
    make_named,
    split_name,
)
from bandit_gym.checks.parameters import (
    MOST_DEPENDENT_ARMS,
    check_covariance,
    check_parameter,
    check_same_length,
)
from bandit_gym.checks.paths import check_file, check_folder, check_path, make_folder
