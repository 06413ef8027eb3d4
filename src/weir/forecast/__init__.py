"""A cluster's future as an event-driven run over its objects: the components' own decisions, without a server."""
