"""Admission control: `chain` has the order, with one module per plugin."""
