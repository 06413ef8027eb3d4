"""Simulated DRA drivers: published devices and their faults."""
