"""A frame made by hand, and the picture that is drawn of it."""

import numpy as np
from matplotlib.figure import Figure

from bandit_gym.envs.rendering import NUM_CELLS, SIZE, ArmEstimates, Frame, draw_frame
from bandit_gym.watching.showing import fit_title

LABELS = ("[/red]<script>$x_1^2$ \\alpha", "שלום [bold]&amp; _%", "i" * 100 + "W" * 100)
"""What markup of some kind would make something else of."""


def make_frame(num_arms=3, environment="World", agent="Agent", **changes):
    """Return the third frame of four steps, in which arm 1 is the best and arm 2 the last."""
    heights = np.tile(np.linspace(0, 1, NUM_CELLS), (num_arms, 1))
    unknown = np.full(num_arms, np.nan)
    fields = {
        "title": (environment, agent, "step 3 of 4"),
        "action": 2,
        "pulls": np.array([0, 1, 2] + (num_arms - 3) * [0]),
        "means": np.array([0.0, 1.0, 0.5] + (num_arms - 3) * [0.25]),
        "belief": ArmEstimates("posterior", unknown, lambda cells: heights),
        "cells": (0.0, 1.0),
    }
    return Frame(**{**fields, **changes})


def draw_axes(**changes):
    """Return the picture of a frame and its axes: what is known, and pulls."""
    figure, frame = Figure(figsize=SIZE), make_frame(**changes)
    draw_frame(figure, frame, fit_title(frame))
    return figure, figure.axes
