"""The only way a component reaches the API.

Start at `weir.client.api` (the verbs). Ways to a server: `http` (with `kubeconfig`) and `local` (same process).
Built on the verbs: `watch` and `cache` (stay up to date), `queue` (what to work on next), `events` and `series`
(write events), `leases` (be the only one).
"""
