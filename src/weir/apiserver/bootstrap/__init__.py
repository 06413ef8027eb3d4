"""Bootstrap objects of a new cluster."""
