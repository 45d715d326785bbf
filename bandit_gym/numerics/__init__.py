"""Special laws that SciPy lacks, or lacks the digits of."""
