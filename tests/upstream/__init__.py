"""Kubernetes' own end-to-end tests, run against `weir up`: see `python -m tests.upstream --help`."""
