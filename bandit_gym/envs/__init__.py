"""The environments, single (`bandit`) and natively vectorised (`vector`)."""
