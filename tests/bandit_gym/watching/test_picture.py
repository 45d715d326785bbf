"""Frames as pictures."""

import warnings

import numpy as np
import pytest
from watched import LABELS, draw_axes


def test_a_picture_has_the_heights_the_true_means_and_the_pulls():
    _, (known, pulls) = draw_axes()
    tops = [patch.get_paths()[0].vertices[:, 1].max() for patch in known.collections]
    np.testing.assert_allclose(tops, [-row - 0.5 + 0.85 for row in range(3)])
    assert [line.get_xdata()[0] for line in known.lines] == [0.0, 1.0, 0.5]
    assert [label.get_text() for label in known.get_yticklabels()] == ["arm 0", "arm 1", "arm 2"]
    assert [bar.get_width() for bar in pulls.patches] == [0, 1, 2]
    assert [text.get_text() for text in pulls.texts] == ["0", "1", "2"]


def test_of_many_arms_twenty_are_drawn_and_the_rest_is_counted():
    _, (known, pulls) = draw_axes(num_arms=1000)
    assert len(known.collections) == len(pulls.patches) == 20
    assert "(980 arms more)" in pulls.get_title(loc="left")


def test_what_is_not_told_is_left_out():
    _, (known, _) = draw_axes(means=None)
    assert not known.lines


@pytest.mark.parametrize("label", LABELS)
def test_labels_are_shown_as_they_are_above_the_axes(label):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, axes = draw_axes(environment=label, agent=label)
        figure.draw_without_rendering()
    (title,) = figure.texts
    assert not title.get_parse_math()
    assert "".join(title.get_text().split()).startswith(2 * "".join(label.split()))
    box = title.get_window_extent()
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= max(each.title.get_window_extent().y1 for each in axes)
