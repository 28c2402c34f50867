"""Lakeport: an airport for your lake."""
