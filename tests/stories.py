"""Every story of the demo, read once for all tests that go through them."""

from __future__ import annotations

from typing import Final

from weir.simulation.demo.story import Story, find_stories

STORIES: Final[tuple[Story, ...]] = tuple(find_stories())
