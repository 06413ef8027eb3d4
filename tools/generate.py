"""Make the tables that weir takes over from Kubernetes' own code (`make generate`; needs Go).

Each table is what one Go program in this folder prints, run with the module versions of `go.mod`. Beside them,
`generated.json` records what each was made from: the Kubernetes version, its source and the table itself, so that
a machine without Go can tell that a table was edited by hand or is older than its program
(`tests/unit/test_generated_tables.py`); `make test-kubernetes` runs the programs again and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent
SOURCE = TOOLS.parent / "src" / "weir"
RECORD = TOOLS / "generated.json"
#: program → the table it prints
TABLES = {
    "fields": SOURCE / "objects" / "fields.json",
    "columns": SOURCE / "apiserver" / "printers" / "columns.json",
    "protobuf": SOURCE / "apiserver" / "transport" / "protobuf_fields.json",
    "rbac": SOURCE / "apiserver" / "bootstrap" / "rbac.json",
    "flowcontrol": SOURCE / "objects" / "flow_control.json",
    "gonames": SOURCE / "validate" / "gonames.json",
}


def arguments(program: str) -> list[str]:
    """Return what *program* is asked for."""
    if program != "columns":
        return []
    from weir.apiserver.printers import PRINTED

    return sorted(PRINTED)


def made_from(program: str) -> dict[str, str]:
    """Return what decides the content of a table, and the table's own hash."""
    sources = [*sorted((TOOLS / program).glob("*.go")), *sorted((TOOLS / "kinds").glob("*.go"))]
    asked = " ".join(arguments(program)).encode()
    source = hashlib.sha256(asked + b"".join(path.read_bytes() for path in sources)).hexdigest()
    return {
        "kubernetes": kubernetes_version(),
        "program": source,
        "table": hashlib.sha256(TABLES[program].read_bytes()).hexdigest(),
    }


def kubernetes_version() -> str:
    """Return the version of Kubernetes that `go.mod` pins."""
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", (TOOLS / "go.mod").read_text(), re.M)
    assert found is not None, "tools/go.mod does not require k8s.io/kubernetes"
    return found[1]


def generated(program: str) -> bytes:
    """Run *program* and return the table it prints."""
    command = ["go", "run", f"./{program}", *arguments(program)]
    return subprocess.run(command, cwd=TOOLS, check=True, stdout=subprocess.PIPE).stdout


def main(programs: list[str]) -> None:
    """Write the tables of *programs*, of all when none is named."""
    for program in programs or list(TABLES):
        print(f"{TABLES[program].relative_to(TOOLS.parent)} …", file=sys.stderr)
        TABLES[program].write_bytes(generated(program))
    record = {program: made_from(program) for program in TABLES}
    RECORD.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
