"""Advice on toleration values: thresholds, fragile workloads, unused entries."""
