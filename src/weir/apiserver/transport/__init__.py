"""Transport: HTTP, paths, options, bodies and content negotiation."""
