"""Encryption at rest: `configuration` reads the file, `providers` are the ciphers, `at_rest` stands at the store."""
