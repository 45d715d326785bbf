import numpy as np

from agents.oracle.search import _split_intervals


def test_as_many_intervals_are_split_as_asked_for_half_of_them_by_their_mass():
    def density(u):
        return -0.5 * u**2

    u = np.linspace(-4.0, 4.0, 17)[:, None]
    found, values = _split_intervals(density, u, density(u), 8)
    assert len(found) == len(u) + 8 * 6  # in sevenths, each with six points inside
    assert (np.diff(found, axis=0) >= 0).all()
    np.testing.assert_array_equal(values, density(found))
    # A normal density has most length times height in the four intervals next to its top.
    for left in (-1.0, -0.5, 0.0, 0.5):
        np.testing.assert_allclose(
            np.unique(found[(found > left + 1e-9) & (found < left + 0.5 - 1e-9)].round(12)),
            left + 0.5 * np.arange(1, 7) / 7,
        )
