"""Encryption at rest: configuration, providers, and the store's transformer."""
