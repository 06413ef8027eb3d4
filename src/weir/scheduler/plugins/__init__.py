"""Scheduler plugins, one per file: filter, score, reservation, queueing hints; registry.py lists them."""
