"""weir: Kubernetes' extended taint and toleration system, explained, simulated and served."""
