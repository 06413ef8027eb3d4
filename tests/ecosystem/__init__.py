"""Programs of the field, unmodified, against `weir up`: `make test-ecosystem`."""
