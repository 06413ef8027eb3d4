"""Simulated cluster: kubelets, device drivers, the control plane in one process, the demo."""
