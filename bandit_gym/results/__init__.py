"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import Results, RunResults, join_results, load_results
from bandit_gym.results.statistics import aggregate, paired_differences, summarise

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
