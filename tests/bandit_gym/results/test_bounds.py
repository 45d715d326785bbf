import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from bandit_gym.experiments.optimum import Optimum
from bandit_gym.results.bounds import draw_optimum
from bandit_gym.results.plots import draw_regret

STEPS = [1, 20, 50]


def lines_below(found, optimum):
    axes = Figure().subplots()
    draw_optimum(axes, dataclasses.replace(found, optimum=optimum))
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def test_least_regret_is_one_line(results):
    least = [0.5, 1.0, 1.5]
    lines = lines_below(results.runs[0], Optimum("exact", STEPS, least, least))
    assert lines == {"least possible": [list(p) for p in zip(STEPS, least, strict=True)]}


def test_bounds_are_two_lines_and_none_is_below_zero(results):
    bounds = [-0.2, 1.0, 2.0], [0.5, 2.0, 4.0]
    lines = lines_below(results.runs[0], Optimum("bracket", STEPS, *bounds))
    assert [y for _, y in lines["least possible, at least"]] == [0.0, 1.0, 2.0]
    assert [y for _, y in lines["least possible, at most"]] == [0.5, 2.0, 4.0]


@pytest.mark.parametrize("optimum", [None, Optimum("none", seconds=17.0)])
def test_nothing_is_drawn_where_nothing_is_known(results, optimum):
    assert lines_below(results.runs[0], optimum) == {}


def test_figure_of_regret_has_the_line(results):
    optimum = Optimum("exact", STEPS, [0.5, 1.0, 1.5], [0.5, 1.0, 1.5])
    figure = draw_regret([dataclasses.replace(results.runs[0], optimum=optimum)])
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == "least possible")
    np.testing.assert_array_equal(line.get_xdata(), STEPS)
