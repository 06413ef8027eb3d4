"""Simulated DRA drivers: what they publish, and the faults of their devices."""
