"""Parts of the study of how much regret could have been avoided: `scripts/optimal.py`."""
