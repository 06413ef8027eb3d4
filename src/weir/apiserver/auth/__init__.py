"""Who is asking, and may they? Authentication, authorization, impersonation, access reviews, certificates."""
