"""Results as people hold them."""

import re
from html import unescape

import pytest

from bandit_gym import load_results
from bandit_gym.experiments import Experiment
from bandit_gym.results import describe, summarise


@pytest.fixture(scope="module")
def results(directory):
    return load_results(directory)


def test_text_and_html_are_the_report(results):
    text, html = describe(results), results._repr_html_()
    assert str(results) == text
    assert html.count("<table>") == len(results.experiment.environments) + 1  # and over all
    shown = unescape(re.sub("<[^>]*>", " ", html)).split()
    assert shown == text.split()
    assert results.table().equals(summarise(results))


def test_repr_reads_the_same_again(results, directory):
    names = {"load_results": load_results, "Experiment": Experiment}
    assert eval(repr(results), names).frame().equals(results.frame())
    fewer = Experiment.from_dict(results.experiment.to_dict() | {"replications": 7})
    part = load_results(directory, fewer)
    again = eval(repr(part), names)
    assert again.frame().equals(part.frame()) and len(again.runs[0].replications) == 7


def test_frame_has_the_rows_of_all_frames(results):
    assert len(results.frame()) == sum(map(len, results.frames()))


def test_plot_is_a_picture_that_notebooks_show(results):
    figure = results.plot()
    assert figure._repr_png_()[:4] == b"\x89PNG"
    again = results.plot(env="again", kind="differences")
    assert again.get_suptitle() == "again"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"env": "agian"}, "env must be .*'again'"),
        ({"kind": "regrets"}, "kind must be .*'regret'"),
        ({"kind": "samples"}, "kind must be one that these results allow"),
    ],
)
def test_plot_refuses_what_there_is_not(results, options, text):
    with pytest.raises(ValueError, match=text):
        results.plot(**options)
