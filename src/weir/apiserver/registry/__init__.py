"""Registry: verbs, patches, lists, watches and subresources on stored objects."""
