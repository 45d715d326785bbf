"""Bad calls in tables: arguments, and the parts that the sentence of the refusal must have."""

import re
from inspect import signature

import pytest


def check_refusals(call, rows):
    """Make each call of a table, and look for its parts in what is raised.

    Args:
        call: what is called.
        rows: arguments, one for each parameter that needs one, and then the parts; where one of
            these is a class, that is raised.
    """
    parameters = signature(call).parameters.values()
    num_arguments = sum(each.default is each.empty for each in parameters)
    for row in rows:
        arguments, parts = row[:num_arguments], row[num_arguments:]
        kinds = tuple(part for part in parts if isinstance(part, type))
        with pytest.raises(kinds or (TypeError, ValueError, OSError)) as caught:
            call(*arguments)
        text, words = str(caught.value), [part for part in parts if part not in kinds]
        assert words and all(word in text for word in words), (row, text)
        own, *_ = re.split(" was raised from | and not raise, got ", text)  # what others add
        assert "\n" not in own and not re.search(r"[\w)\]']\. [A-Z]", own), row  # one sentence
