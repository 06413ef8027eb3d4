"""`weir ui`: fit matrix, timeline and device screens, and a page per pod.

source.py       cluster data: a dump, or a live cluster by watches
workloads.py    rows of the fit matrix: top-level workloads with their pods
node_groups.py  its columns: nodes equal in taints, size and relevant labels
matrix.py       its cells, by the scheduler's engine
matrix_cache.py reuse of cells between versions of the cluster
answers.py      one workload in detail: reasons, the smallest fix, trying it
timeline.py     the effect of a change, and the taint values that matter
fleet.py        devices and rules
pods.py         pod history
writes.py       changes in the live cluster, with the user's credentials
rights.py       the user's permissions for a change
screens.py      the page's API
access.py       access control: token, cookie, host and origin
server.py       the HTTP server
report.py       the screens in one file
page/           the browser's code, without logic
"""
