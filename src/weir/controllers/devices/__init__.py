"""Device taint eviction and resource claims."""
