"""The parts of `beyond_paper.py`: what goes beyond the paper, and how it was measured."""
