"""`make faults`: every process of a highly available cluster is killed and restarted in turn, under load."""
