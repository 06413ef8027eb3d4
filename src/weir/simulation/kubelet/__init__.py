"""Simulated kubelets: nodes that report, and pods that live on them."""
