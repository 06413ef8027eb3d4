"""API Priority and Fairness.

Spec: decision 14. `classify` (flow schema and flow of a request), `width` (its seats), `levels` (seats and queues of
a priority level), `dispatcher` (which request starts next), `shares` (seats per level), `shuffle` (shuffle sharding),
`retry_after`, `objects` and `keeper` (bootstrap configuration), `debug` (debug pages).
"""
