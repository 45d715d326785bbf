"""The rows of `scripts/benchmark.py`, one module per family of them."""
