"""What an experiment has shown: stored blocks in, estimates, tables and figures out."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.results.report import describe as describe
    from bandit_gym.results.report import write_report as write_report
    from bandit_gym.results.results import Results as Results
    from bandit_gym.results.results import RunResults as RunResults
    from bandit_gym.results.results import aggregate as aggregate
    from bandit_gym.results.results import load_results as load_results
    from bandit_gym.results.results import paired_differences as paired_differences
    from bandit_gym.results.results import summarise as summarise

__getattr__, __dir__ = lend(
    __name__,
    {
        "Results": "results",
        "RunResults": "results",
        "aggregate": "results",
        "describe": "report",
        "load_results": "results",
        "paired_differences": "results",
        "summarise": "results",
        "write_report": "report",
    },
)
__all__ = __dir__()
