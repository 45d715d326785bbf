"""The faults of `scripts/reliability.py`: what is done to a run and its folder, and how it ends."""
