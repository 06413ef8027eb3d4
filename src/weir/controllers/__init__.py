"""Controllers: reconcile loops that bring the cluster to the state its objects specify."""
