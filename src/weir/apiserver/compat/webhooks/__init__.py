"""Admission and conversion webhooks: matching, requests and responses."""
