"""Proofs of docs/coverage: changes that make each statement false, and the tests that must notice."""
