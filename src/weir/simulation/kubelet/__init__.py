"""Simulated kubelets: node heartbeats and pod lifecycles."""
