"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import Results, load_results
from bandit_gym.results.stored import RunResults, paired_differences
from bandit_gym.results.tables import aggregate, summarise

__all__ = [
    "Results",
    "RunResults",
    "aggregate",
    "describe",
    "load_results",
    "paired_differences",
    "summarise",
    "write_html",
    "write_report",
]
