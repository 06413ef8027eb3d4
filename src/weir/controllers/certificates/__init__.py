"""Controllers of certificates.k8s.io: approving, signing, publishing and cleaning up."""
