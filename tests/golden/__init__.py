"""Replays of recorded exchanges with a real Kubernetes API server."""
