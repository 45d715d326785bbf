"""Stored results: opened, summarised with intervals, drawn and told."""
