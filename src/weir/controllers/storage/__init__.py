"""Persistent volumes and claims."""
