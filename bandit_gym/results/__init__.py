"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from bandit_gym.results.data import RunResults, aggregate, paired_differences, summarise
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import Results, join_results, load_results

__all__ = [
    "Results",
    "RunResults",
    "aggregate",
    "describe",
    "join_results",
    "load_results",
    "paired_differences",
    "summarise",
    "write_html",
    "write_report",
]
