"""How does a request travel? Bytes, HTTP, paths, options, bodies and the form of the answer."""
