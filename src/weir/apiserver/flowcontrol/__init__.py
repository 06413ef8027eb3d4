"""API Priority and Fairness: whose request is begun, whose waits, whose is refused.

Spec: decision 14. From the request to the answer: `classify` (which schema, which flow), `width` (how many seats),
`levels` (seats and queues of one level), `dispatcher` (the turns of the loop). Around them: `shares` (how many seats a
level has), `shuffle` (which queues a flow gets), `retry_after` and `tallies` (what the refused are told, what is
counted), `objects` and `keeper` (the configuration that a cluster starts with), `debug` (pages that show all this).
"""
