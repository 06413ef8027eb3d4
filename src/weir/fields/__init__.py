"""Field errors, and the rules that objects of every kind share: metadata, shape, addresses, webhook clients."""
