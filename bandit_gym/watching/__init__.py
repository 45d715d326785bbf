"""A run as it goes: what an agent knows, what it pulls and what that costs, for people to watch."""
