"""Autoscaling: how many replicas a workload needs for what its pods use."""
