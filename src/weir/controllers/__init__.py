"""Controllers: what should happen next so that the cluster becomes what its objects ask for?"""
