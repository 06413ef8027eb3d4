"""The objects every new cluster starts with."""
