"""Ways to approximate a posterior that are none of this project's, as `fidelity-v1` takes them.

Each has the setting that its authors recommend; the source is named there. All but the ensemble are
samplers `(problem, counts, sums, rng, size) -> (size, K)`. The log-posterior that several share is
in `target.py`.
"""
