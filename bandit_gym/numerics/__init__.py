"""Laws that SciPy lacks or lacks the digits of, random streams, and how loops are compiled."""
