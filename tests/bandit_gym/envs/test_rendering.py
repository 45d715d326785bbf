"""What there is to see of an episode, as text and as a picture."""

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.figure import Figure

from bandit_gym.envs.rendering import NUM_CELLS, SIZE, View, draw_view
from bandit_gym.films import fit_title


def test_text_lists_arms_pulls_and_means():
    means = [0.0, 1.0, 0.25]
    env = gym.make("BernoulliBandit-v0", num_arms=3, means=means, render_mode="ansi")
    env.reset(seed=0), env.step(1)
    assert env.render().startswith("Bernoulli bandit, 1 pull, mean")
    env.step(1), env.step(0)
    assert env.render() == (
        "Bernoulli bandit, 3 pulls, mean reward 0.667, regret 1.0\n"
        "  arm   pulls  empirical  true mean\n"
        "    0       1      0.000      0.000  <\n"
        "    1       2      1.000      1.000 *\n"
        "    2       0          -      0.250\n"
    )


LABELS = ("[/red]<script>$x_1^2$ \\alpha", "שלום [bold]&amp; _%", "i" * 100 + "W" * 100)
"""What markup of some kind would make something else of."""


def draw_axes(num_arms=3, environment="World", agent="Agent", **changes):
    """Return a picture and its axes: what is known, and pulls.

    It is of the third frame of four steps, in which arm 1 is the best and arm 2 the last.
    """
    fields = {
        "title": (environment, agent, "step 3 of 4"),
        "action": 2,
        "pulls": np.array([0, 1, 2] + (num_arms - 3) * [0]),
        "means": np.array([0.0, 1.0, 0.5] + (num_arms - 3) * [0.25]),
        "source": "posterior",
        "centre": np.full(num_arms, np.nan),
        "cells": (0.0, 1.0),
        "heights": np.tile(np.linspace(0, 1, NUM_CELLS), (num_arms, 1)),
    }
    figure, view = Figure(figsize=SIZE), View(**{**fields, **changes})
    draw_view(figure, view, fit_title(view))
    return figure, figure.axes


def test_a_picture_has_the_heights_the_pulls_and_the_true_means_if_they_are_told():
    _, (known, pulls) = draw_axes()
    tops = [patch.get_paths()[0].vertices[:, 1].max() for patch in known.collections]
    np.testing.assert_allclose(tops, [-row - 0.5 + 0.85 for row in range(3)])
    assert [line.get_xdata()[0] for line in known.lines] == [0.0, 1.0, 0.5]
    assert [label.get_text() for label in known.get_yticklabels()] == ["arm 0", "arm 1", "arm 2"]
    assert [bar.get_width() for bar in pulls.patches] == [0, 1, 2]
    assert [text.get_text() for text in pulls.texts] == ["0", "1", "2"]
    _, (known, _) = draw_axes(means=None)
    assert not known.lines


def test_of_many_arms_twenty_are_drawn_and_the_rest_is_counted():
    _, (known, pulls) = draw_axes(num_arms=1000)
    assert len(known.collections) == len(pulls.patches) == 20
    assert "(980 arms more)" in pulls.get_title(loc="left")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", LABELS)
def test_labels_are_shown_as_they_are_above_the_axes(label):
    figure, axes = draw_axes(environment=label, agent=label)
    figure.draw_without_rendering()
    (title,) = figure.texts
    assert not title.get_parse_math()
    assert "".join(title.get_text().split()).startswith(2 * "".join(label.split()))
    box = title.get_window_extent()
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= max(each.title.get_window_extent().y1 for each in axes)
