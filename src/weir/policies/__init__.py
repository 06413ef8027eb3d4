"""Admission policies: which writes they are about, and what their expressions say of one."""
