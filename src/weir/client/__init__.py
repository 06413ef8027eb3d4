"""API client of weir's components.

Start at `weir.client.api` (the verbs). Transports: `http` (with `kubeconfig`) and `local` (same process). Built on
the verbs: `watch` and `cache` (reflector and informer), `queue` (work queue), `events` and `series` (event
recorders), `leases` (leader election).
"""
