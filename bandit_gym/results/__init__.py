"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.results.presented import Results, load_results
    from bandit_gym.results.report import describe, draw_regret, write_report
    from bandit_gym.results.results import RunResults, paired_differences
    from bandit_gym.results.spreadsheet import to_csv
    from bandit_gym.results.summary import aggregate, summarise

__getattr__, __dir__ = lend(
    __name__,
    {
        "Results": "presented",
        "RunResults": "results",
        "aggregate": "summary",
        "describe": "report",
        "draw_regret": "report",
        "load_results": "presented",
        "paired_differences": "results",
        "summarise": "summary",
        "to_csv": "spreadsheet",
        "write_report": "report",
    },
)
__all__ = __dir__()
