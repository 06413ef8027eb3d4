"""Registered groups: which APIService objects there are, and whether each is available (apiregistration.k8s.io)."""
