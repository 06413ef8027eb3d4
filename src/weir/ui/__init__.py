"""`weir ui`: three screens to look at a cluster with, and a page for each pod.

source.py      what the cluster holds, from a dump once, from a live one by watch
workloads.py   the rows of the fit matrix: what people made, with the pods that came of it
node_groups.py its columns: nodes that are equal in taints, size and the labels that matter
matrix.py      its cells: the scheduler's engine asked about each
remembered.py  what of the last matrix still holds after a change
answers.py     one workload in full: the reasons, the smallest change, and that change tried
timeline.py    what a change would do, and the values of a taint that make a difference
fleet.py       devices, and rules that taint them
pods.py        the life of one pod
writes.py      the change made in the live cluster, with the user's own rights
rights.py      what the user may not do there, known before it is tried
screens.py     all of these behind one door: a path and its question in, a document out
door.py        who may ask: token, cookie, host and origin
server.py      the socket
report.py      the same screens in one file
page/          what the browser runs; it decides nothing
"""
