"""What would a change to the cluster do? The components themselves, run on a copy of it under virtual time."""
