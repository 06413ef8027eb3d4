"""Prometheus' own query engine as a program, and the PromQL of the tests held against its answers."""
