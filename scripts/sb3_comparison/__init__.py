"""The parts of `compare_sb3.py`: what to train, how, how to evaluate, what to write."""
