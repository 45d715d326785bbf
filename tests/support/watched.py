"""A frame made by hand, and the picture that is drawn of it."""

import numpy as np
from matplotlib.figure import Figure

from bandit_gym.watching.frames import Frame
from bandit_gym.watching.picture import draw

LABELS = ("[/red]<script>$x_1^2$ \\alpha", "שלום [bold]&amp; _%", "i" * 100 + "W" * 100)
"""What markup of some kind would make something else of."""


def make_frame(num_arms=3, **changes):
    """Return the third frame of four steps, in which arm 1 is the best and arm 2 the last."""
    heights = np.tile(np.linspace(0, 1, 9), (num_arms, 1))
    fields = {
        "world": "World",
        "agent": "Agent",
        "step": 3,
        "horizon": 4,
        "action": 2,
        "pulls": np.array([0, 1, 2] + (num_arms - 3) * [0]),
        "means": np.array([0.0, 1.0, 0.5] + (num_arms - 3) * [0.25]),
        "belief": "posterior, from tables",
        "centre": np.array([np.inf, 0.75, 0.5] + (num_arms - 3) * [0.125]),
        "cells": (0.0, 1.0),
        "heights": heights,
        "steps": np.array([1, 2, 3]),
        "regrets": np.array([0.5, 0.5, 1.0]),
    }
    return Frame(**{**fields, **changes})


def draw_axes(**changes):
    """Return the picture of a frame and its axes: what is known, pulls, and regret."""
    figure = Figure(figsize=(8, 5.6))
    draw(figure, make_frame(**changes))
    return figure, figure.axes
