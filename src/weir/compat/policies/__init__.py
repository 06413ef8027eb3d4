"""Admission policies: matching, evaluation and dispatch."""
