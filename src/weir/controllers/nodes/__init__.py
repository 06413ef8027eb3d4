"""Node lifecycle, taint eviction and pod garbage collection."""
