"""Controller runtime: runner, workers, actions, listers, expectations, backoff."""
