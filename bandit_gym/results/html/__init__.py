"""A report in one HTML file, which opens from disk and asks no network for anything."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.results.html.page import write_html

__getattr__, __dir__ = lend(__name__, {"write_html": "page"})
__all__ = __dir__()
