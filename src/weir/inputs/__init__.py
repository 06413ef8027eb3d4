"""What commands, the library and the page of `weir ui` read: files, clusters, their gates."""
