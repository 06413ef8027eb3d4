"""Extended tolerations and SemVer affinity in words that an unmodified Kubernetes understands.

Spec: stock.md. Everything here is a plain function of its arguments; the operator is the process that
serves the hooks and writes to the cluster.
"""
