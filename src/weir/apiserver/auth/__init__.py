"""Authentication, authorization, impersonation, access reviews, certificates."""
