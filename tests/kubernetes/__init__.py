"""Tests that need real Kubernetes binaries; run by `make test-kubernetes`."""
