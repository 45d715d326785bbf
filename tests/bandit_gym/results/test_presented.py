"""Results as people hold them."""

import pytest

from bandit_gym import load_results
from bandit_gym.experiments import Experiment
from bandit_gym.results import describe, summarise


@pytest.fixture(scope="module")
def results(directory):
    return load_results(directory)


def test_text_and_html_are_the_report(results):
    assert str(results) == describe(results)
    assert results._repr_html_().startswith("<pre>") and "&#x27;s, paired" in results._repr_html_()
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
