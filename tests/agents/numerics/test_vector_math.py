"""Exponentials and logarithms of whole arrays, compiled and as plain Python."""

import math

import numpy as np
import pytest
from numba import njit

from agents.numerics import vector_math as module

FORMS = {
    "compiled": (njit(module.exp_all), njit(module.log_all)),
    "plain": (module.exp_all, module.log_all),
}
ROUNDING = 2e-15
LEFT_OUT = 0.35**12 / math.factorial(12)  # of the series of e^r, |r| < 0.35


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def test_exponentials_are_right_to_the_fifteenth_digit(form):
    x = np.concatenate([np.linspace(-708.0, 708.0, 501), np.linspace(-1.0, 1.0, 200)])
    found = x.copy()
    form[0](found, np.empty_like(x))
    np.testing.assert_allclose(found, np.exp(x), rtol=LEFT_OUT + ROUNDING)


def test_exponentials_are_clipped_where_they_would_leave_the_range(form):
    found = np.array([-1e6, -708.5, 708.5, 1e6])
    form[0](found, np.empty(4))
    np.testing.assert_allclose(
        found, np.exp([-708.0, -708.0, 708.0, 708.0]), rtol=LEFT_OUT + ROUNDING
    )


def test_logarithms_are_right_to_the_fifteenth_digit(form):
    x = np.concatenate([np.geomspace(1e-307, 1e307, 501), np.linspace(0.6, 1.5, 200)])
    found = x.copy()
    form[1](found, np.empty_like(x))
    np.testing.assert_allclose(found, np.log(x), rtol=ROUNDING, atol=1e-16)
