"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from bandit_gym.results.data import RunResults, aggregate, paired_differences, summarise
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import Results, join_results, load_results
