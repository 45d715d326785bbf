"""What experiments have shown: stored blocks in, tables, intervals and pictures out."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.results.report import describe, write_report
    from bandit_gym.results.results import Results, RunResults, aggregate, load_results, summarise

__all__ = [
    "Results",
    "RunResults",
    "aggregate",
    "describe",
    "load_results",
    "summarise",
    "write_report",
]

__getattr__, __dir__ = lend(
    __name__,
    {
        "Results": "results",
        "RunResults": "results",
        "aggregate": "results",
        "describe": "report",
        "load_results": "results",
        "summarise": "results",
        "write_report": "report",
    },
)
