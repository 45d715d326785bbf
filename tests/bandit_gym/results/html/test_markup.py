import json

import pytest

from bandit_gym.results.html import markup
from bandit_gym.results.html.charts import Chart, Line
from bandit_gym.results.tables import Table

HARM = "</script><img src=x onerror=alert(1)> & \u2028 אב"


def test_embedded_data_cannot_end_their_element_and_read_the_same():
    text = markup.embed({"name": HARM})
    assert "<" not in text and ">" not in text and "&" not in text
    assert json.loads(text) == {"name": HARM}


def test_a_table_escapes_all_its_parts():
    text = markup.table(Table(HARM, ["agent", HARM], [[HARM, "1"]], [HARM]))
    assert "<img" not in text
    assert text.count("&lt;img") == 5  # the title twice, for those who do not see it


def test_first_seven_agents_differ_without_colour_and_all_thirty_with_it():
    looks = [markup.look(number) for number in range(42)]
    assert len({look["dash"] for look in looks[:7]}) == 7
    assert len({tuple(look.values()) for look in looks}) == 42
    assert len({(look["dash"], look["symbol"]) for look in looks}) == 42


@pytest.fixture
def chart():
    lines = [Line(n, f"a{n}", [1, 2, 3], [0.0, 1.0, 9.0 - n], []) for n in range(7)]
    return Chart("Regret", "step", "regret", "", "xy", {"": lines})


def test_words_of_a_chart_name_the_lowest_of_many_agents(chart):
    words = markup.describe(chart)
    assert "the 5 lowest of 7 agents from low to high: a6 3, a5 4, a4 5, a3 6, a2 7." in words


def test_values_of_a_chart_are_in_a_table_with_their_intervals(chart):
    banded = Line(0, "a", [1, 3], [2.0, 4.0], [0.5, None])
    text = markup.figure("0-0", chart._replace(choices={"": [banded, *chart.lines[1:]]}))
    assert "<bdi>2 ± 0.5</bdi>" in text
    assert "<bdi>4</bdi>" in text


@pytest.mark.parametrize("count", [1, 6, 7, 200, 10**4])
def test_places_of_a_table_are_few_and_end_at_the_last(count):
    places = markup._spread(count)
    assert len(places) <= 6
    assert places[0] == 0 and places[-1] == count - 1
