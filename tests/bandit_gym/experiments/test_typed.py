"""What is typed on the command line, and read as settings."""

import pytest

from bandit_gym.experiments.typed import parse_agent, parse_integer, parse_number


def test_numbers_are_read_and_what_is_none_is_handed_on():
    assert (parse_number("0.5"), parse_number("half")) == (0.5, "half")
    assert (parse_integer("-12"), parse_integer("1.5")) == (-12, "1.5")


def test_agents_are_names_with_options_as_json_or_else_as_text():
    assert parse_agent("exact") == {"agent": "exact"}
    assert parse_agent("racing:delta=0.1,proposal=matched") == {
        "agent": "racing",
        "delta": 0.1,
        "proposal": "matched",
    }


@pytest.mark.parametrize("text", ["", ":delta=1", "racing:delta=1,delta=2", "exact:agent=1"])
def test_what_is_no_agent_is_refused(text):
    with pytest.raises(ValueError, match="must|have|got"):
        parse_agent(text)
