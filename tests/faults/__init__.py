"""`make faults`: parts of a highly available cluster are taken away in turn, under load."""
