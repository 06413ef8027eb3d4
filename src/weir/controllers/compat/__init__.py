"""Controllers that stand only for compatibility: autoscaling, certificates, network."""
