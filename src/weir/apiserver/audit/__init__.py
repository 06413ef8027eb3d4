"""Audit events, and the log they are written to."""
