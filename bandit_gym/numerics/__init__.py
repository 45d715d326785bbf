"""Distributions that SciPy lacks, random streams, and the compilation of loops."""
