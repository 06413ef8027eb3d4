"""Admission webhooks: which are called, what they are sent, and what their answers mean."""
