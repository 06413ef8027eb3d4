"""The scheduler's plugins, one file each. A plugin is bound to a pod class and then answers for rows of the table."""
