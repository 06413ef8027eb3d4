"""Tests of the autoscaling controllers."""
