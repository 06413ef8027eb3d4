"""Which toleration values would serve a workload better? Thresholds, fragile workloads, entries that nothing uses."""
