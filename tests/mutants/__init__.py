"""Mutation tests: changes single lines of the core and reports those that no test notices."""
