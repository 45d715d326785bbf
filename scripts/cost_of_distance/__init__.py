"""The parts of `does_distance_matter.py`: worlds and agents, distances, regrets, and the page."""
