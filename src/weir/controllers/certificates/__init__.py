"""Controllers of certificates.k8s.io: who approves, signs, publishes and cleans up."""
