"""Garbage collection, namespaces, quota, service accounts."""
