"""Python source for CEL programs: one module for each kind of step, on top of one writer of lines and costs."""
