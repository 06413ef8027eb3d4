"""Plans: a change made in waves that keep goals, found by forecasts; `weir plan` and `weir what-if -o plan`."""
