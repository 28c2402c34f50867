"""Measurements, each a ratio to a baseline of the same run."""
