"""Predicts what a change does to a cluster: the components themselves run on a copy of it under virtual time."""
