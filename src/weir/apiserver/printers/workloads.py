"""Table cells of Deployment, ReplicaSet, DaemonSet, StatefulSet, Job, CronJob and related kinds.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from datetime import datetime

from weir.apiserver.printers.values import (
    NONE,
    Cells,
    Document,
    age,
    at,
    condition_of,
    containers_of,
    count,
    human_duration,
    is_true,
    label_text,
    name_of,
    selector_text,
    since,
    template_of,
)


def deployment_cells(found: Document, now: float) -> Cells:
    names, images = template_of(found)
    return [
        name_of(found),
        f"{count(found, 'status', 'readyReplicas')}/{count(found, 'spec', 'replicas')}",
        count(found, "status", "updatedReplicas"),
        count(found, "status", "availableReplicas"),
        age(found, now),
        names,
        images,
        selector_text(at(found, "spec", "selector")),
    ]


def replica_cells(found: Document, now: float) -> Cells:
    names, images = template_of(found)
    selector = at(found, "spec", "selector")
    return [
        name_of(found),
        count(found, "spec", "replicas"),
        count(found, "status", "replicas"),
        count(found, "status", "readyReplicas"),
        age(found, now),
        names,
        images,
        label_text(selector) if found.get("kind") == "ReplicationController" else selector_text(selector),
    ]


def daemon_set_cells(found: Document, now: float) -> Cells:
    names, images = template_of(found)
    status = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    return [
        name_of(found),
        *(count(found, "status", field) for field in status),
        label_text(at(found, "spec", "template", "spec", "nodeSelector")),
        age(found, now),
        names,
        images,
        selector_text(at(found, "spec", "selector")),
    ]


def stateful_set_cells(found: Document, now: float) -> Cells:
    ready, wanted = count(found, "status", "readyReplicas"), count(found, "spec", "replicas")
    return [name_of(found), f"{ready}/{wanted}", age(found, now), *template_of(found)]


def job_cells(job: Document, now: float) -> Cells:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    done, parallel = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    duration = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        until = datetime.fromisoformat(end).timestamp() if end else now
        duration = human_duration(until - datetime.fromisoformat(status["startTime"]).timestamp())
    state = "Running"
    for name, text in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        (None, "Terminating"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        met = at(job, "metadata", "deletionTimestamp") if name is None else is_true(condition_of(job, name))
        if met:
            state = text
            break
    selector = selector_text(spec.get("selector"))
    return [name_of(job), state, completions, duration, age(job, now), *template_of(job), selector]


def cron_job_cells(found: Document, now: float) -> Cells:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    last = status.get("lastScheduleTime")
    template = at(spec, "jobTemplate", "spec")
    return [
        name_of(found),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(found, now),
        *containers_of(at(template, "template", "spec")),
        selector_text(at(template, "selector")),
    ]


def budget_cells(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    return [
        name_of(found),
        str(spec["minAvailable"]) if "minAvailable" in spec else "N/A",
        str(spec["maxUnavailable"]) if "maxUnavailable" in spec else "N/A",
        count(found, "status", "disruptionsAllowed"),
        age(found, now),
    ]


def controller_revision_cells(found: Document, now: float) -> Cells:
    owners = at(found, "metadata", "ownerReferences") or ()
    owner = next((o for o in owners if o.get("controller")), None)
    kind, _, group = "", "", ""
    if owner is not None:
        kind, group = str(owner.get("kind", "")).lower(), str(owner.get("apiVersion", "")).rpartition("/")[0]
    shown = f"{kind}{'.' + group if group else ''}/{owner.get('name')}" if owner is not None else NONE
    return [name_of(found), shown, found.get("revision", 0), age(found, now)]
