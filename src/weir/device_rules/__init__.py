"""DeviceTaintRules as a command or the page of `weir ui` makes, previews and writes them."""
