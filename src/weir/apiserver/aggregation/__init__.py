"""API aggregation: APIService objects and their availability (apiregistration.k8s.io)."""
