"""What is done to stored objects? The verbs, patches, lists, watches and subresources."""
