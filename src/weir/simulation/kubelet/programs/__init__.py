"""Playback of simulated containers' commands, without running anything."""
