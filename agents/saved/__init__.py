"""Agents in files: what they are built from, what they remember, and how both are written."""
