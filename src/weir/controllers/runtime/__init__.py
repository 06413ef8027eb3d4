"""What every controller runs on: the runner, actions, listers, expectations, back-off."""
