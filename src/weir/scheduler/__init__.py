"""Where should this pod run? Kubernetes' scheduling decisions, made on columns instead of objects."""
