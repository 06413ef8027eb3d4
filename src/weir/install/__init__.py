"""Bringing weir's operator into a cluster, asking whether all is well with it, and taking it out again."""
