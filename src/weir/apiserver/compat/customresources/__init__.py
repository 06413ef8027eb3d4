"""Serving of custom resources: registration of kinds, and the lifecycle of definitions."""
