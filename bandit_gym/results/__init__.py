"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.results.comparison import Comparison, compare, describe_comparison
    from bandit_gym.results.html.page import write_html
    from bandit_gym.results.presented import Results, load_results
    from bandit_gym.results.report import describe, draw_regret, write_report
    from bandit_gym.results.results import RunResults, paired_differences
    from bandit_gym.results.spreadsheet import to_csv
    from bandit_gym.results.summary import aggregate, summarise

__getattr__, __dir__ = lend(
    __name__,
    {
        "Comparison": "comparison",
        "Results": "presented",
        "RunResults": "results",
        "aggregate": "summary",
        "compare": "comparison",
        "describe": "report",
        "describe_comparison": "comparison",
        "draw_regret": "report",
        "load_results": "presented",
        "paired_differences": "results",
        "summarise": "summary",
        "to_csv": "spreadsheet",
        "write_html": "html.page",
        "write_report": "report",
    },
)
__all__ = __dir__()
