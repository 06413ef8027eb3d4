"""Audit events and the audit log."""
