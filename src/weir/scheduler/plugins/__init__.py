"""One file per plugin of the scheduler: its filter, score, reservation, queueing hints; registry.py lists them."""
