"""The process that extends a stock cluster: admission hooks and the controller that keeps lowered objects right."""
