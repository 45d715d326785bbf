"""The parts of `fidelity.py`: what is measured, how, and how it is told."""
