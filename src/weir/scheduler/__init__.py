"""Scheduler: Kubernetes' scheduling decisions, computed on columns of nodes."""
