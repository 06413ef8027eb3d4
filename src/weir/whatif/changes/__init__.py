"""The changes a what-if question can be about, each a value that carries itself out on a copy.

Each does what the command of the same name does: `kubectl taint`, `label`, `drain`, `cordon`, `delete node`, `scale`,
`apply -f`, `rollout restart`; `add-nodes` makes nodes as a cluster autoscaler would, `gates` restarts the components.
"""

from weir.whatif.changes.apply import Apply
from weir.whatif.changes.change import Change, ChangeError, Wait
from weir.whatif.changes.drain import Drain
from weir.whatif.changes.gates import SetGates
from weir.whatif.changes.nodes import AddNodes, Cordon, DeleteNode, Label, Nodes, Taint, TaintEdit
from weir.whatif.changes.workloads import Rollout, Scale

__all__ = [
    "AddNodes",
    "Apply",
    "Change",
    "ChangeError",
    "Cordon",
    "DeleteNode",
    "Drain",
    "Label",
    "Nodes",
    "Rollout",
    "Scale",
    "SetGates",
    "Taint",
    "TaintEdit",
    "Wait",
]
