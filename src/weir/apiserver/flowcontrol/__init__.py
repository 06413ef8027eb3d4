"""API Priority and Fairness: whose request is begun, whose waits, whose is refused.

Spec: decision 14. `objects` decides how the configuration that a cluster starts with is kept and which schemas dangle,
`keeper` writes it.
"""
