"""What a simulated container's command does, played without running anything."""
