"""The page's API: a path and query in, a status and document out.

Paths are below /api/v1; the documents embed the schemas of `-o json` (docs/reference/ui-api.md). Results are cached
per version of the cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
import msgspec

from weir.errors import ApiError, WeirError
from weir.explain.observed import observed_pod
from weir.objects.core import ViewError
from weir.objects.requests import RequestError
from weir.plan.document import Wave
from weir.plan.verify import check_waves
from weir.plan.waves import wave
from weir.ui.answers import NotThere, Try, explain_workload, matrix_of
from weir.ui.fleet import fleet, preview, preview_chosen
from weir.ui.matrix import Matrix
from weir.ui.matrix_cache import MatrixCache
from weir.ui.plans import make_plan
from weir.ui.pods import pod_page
from weir.ui.rights import denied, needs, needs_to_untaint
from weir.ui.simulations import Cancelled, Simulations
from weir.ui.source import ClusterView, Source, lacking
from weir.ui.timeline import BadQuestion, Question, foresee, ticks
from weir.ui.writes import Drains, make, remove_rule

Document = dict[str, Any]
Answer = tuple[int, Document]
Query = Mapping[str, str]
Ticker = Callable[..., None]  #: done, total and, where it changes, the stage
API: Final = "/api/v1/"
#: A page that waits for changes is answered after so long in any case.
WAIT_SECONDS: Final = 25.0
_MOST_TRIES: Final = 20
_MOST_KEPT: Final = 64


class Screens:
    """All screens of one cluster."""

    def __init__(self, source: Source, *, read_only: bool) -> None:
        self.source, self.read_only = source, read_only or not source.live
        self._lock = threading.RLock()
        self._kept: dict[tuple[int, str], Any] = {}
        self._memory: MatrixCache | None = None  #: of the last matrix
        self._drains = Drains()
        self._simulations = Simulations()
        self._plan: Wave | None = None
        self._gets: dict[str, Callable[[Query], Document]] = {
            "state": self._state,
            "changes": self._changes,
            "matrix": lambda query: self.matrix(),
            "explain": lambda query: self.explain(query.get("workload", ""), query.get("node", "")),
            "pod": self._pod,
            "fleet": lambda query: self._once("fleet", fleet),
            "reality": self._reality,
            "progress": self._progress,
        }
        self._posts: dict[str, Callable[[Document], Document]] = {
            "try": self._try,
            "ticks": lambda body: ticks(self._readable(), Question.of(body)),
            "what-if": lambda body: self.foresee(body),
            "plan": lambda body: self._simulated("plan", body, self._make_plan),
            "cancel": self._cancel,
            "rule": lambda body: preview(self.source.seen(), body),
            "rules": lambda body: preview_chosen(self.source.seen(), body),
            "rights": self._rights,
            "apply": self._apply,
            "unrule": self._unrule,
        }

    def get(self, name: str, query: Query) -> Answer:
        """Answer a GET of `/api/v1/<name>`."""
        return self._answered(self._gets.get(name), query)

    def post(self, name: str, body: Any) -> Answer:
        """Answer a POST to `/api/v1/<name>`."""
        if not isinstance(body, dict):
            return 400, {"error": "expected a JSON object"}
        return self._answered(self._posts.get(name), body)

    def _answered(self, ask: Callable[[Any], Document] | None, given: Any) -> Answer:
        if ask is None:
            return 404, {"error": "there is nothing at this path"}
        try:
            return 200, ask(given)
        except Cancelled:
            return 409, {"error": "cancelled"}
        except NotThere as error:
            return 404, {"error": str(error)}
        except (BadQuestion, ViewError, RequestError) as error:
            return 422, {"error": " ".join(str(error).split())}
        except click.ClickException as error:
            return 422, {"error": error.format_message()}
        except ApiError as error:
            return 409 if error.code == 409 else 403 if error.code == 403 else 502, {
                "error": f"the cluster says: {' '.join(str(error).split())}"
            }
        except (WeirError, ConnectionError, TimeoutError) as error:
            return 502, {"error": f"cannot reach the cluster: {' '.join(str(error).split())}"}

    # ── keeping ──

    def _once(self, name: str, work: Callable[[ClusterView], Document]) -> Document:
        """Return what *work* makes of the cluster as it is now; worked out once for each version."""
        with self._lock:
            seen = self.source.seen()
            key = (seen.version, name)
            if key not in self._kept:
                self._keep(key, work(seen))
            document: Document = self._kept[key]
            return {**document, "version": seen.version}

    def _keep(self, key: tuple[int, str], result: Any) -> None:
        """Keep a result of a version; those of other versions go, and of too many the oldest."""
        for old in [each for each in self._kept if each[0] != key[0]]:
            del self._kept[old]
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = result

    def _readable(self) -> ClusterView:
        seen = self.source.seen()
        if why := lacking(seen, ("Node", "Pod")):
            raise BadQuestion(f"cannot say: {why}")
        return seen

    # ── reading ──

    def _state(self, query: Query) -> Document:
        seen = self.source.seen()
        return {
            "schema": "weir.ui.state/v1",
            "version": seen.version,
            "cluster": self.source.title(),
            "live": self.source.live,
            "readOnly": self.read_only,
            "gates": seen.known.line(),
            "gateNames": sorted(seen.known.features),
            "missing": [
                {"kind": each.kind, "plural": each.plural, "why": each.why} for each in seen.held.missing
            ],
            "nodes": [
                {"name": node.name, "labels": node.metadata.labels or {}}
                for node in seen.world.nodes.values()
            ],
            "taintKeys": _taint_keys(seen),
        }

    def _changes(self, query: Query) -> Document:
        after = query.get("after", "0")
        return {"version": self.source.wait(int(after) if after.isdecimal() else 0, WAIT_SECONDS)}

    def matrix(self) -> Document:
        """Return the fit matrix."""
        return self._once("matrix", lambda seen: self._cannot(seen) or self._base(seen).document())

    def _cannot(self, seen: ClusterView) -> Document | None:
        why = lacking(seen, ("Node", "Pod"))
        return (
            {"schema": "weir.ui.matrix/v1", "cannotSay": f"cannot say what fits where: {why}"}
            if why
            else None
        )

    def _base(self, seen: ClusterView) -> Matrix:
        key = (seen.version, "matrix itself")
        if key not in self._kept:
            self._kept[key] = made = matrix_of(seen, remembered=self._memory)[0]
            self._memory = made.memory
        found: Matrix = self._kept[key]
        return found

    def explain(self, name: str, node: str = "") -> Document:
        """Return one workload in full; with *node*, the changes that help there."""
        return self._once(f"explain {name} {node}", lambda seen: explain_workload(seen, name, node)[0])

    def _pod(self, query: Query) -> Document:
        namespace, _, name = query.get("name", "").partition("/")
        found = self._once(f"pod {namespace}/{name}", lambda seen: pod_page(seen, namespace, name))
        view = self.source.seen().world.pods.get(f"{namespace}/{name}")
        said = observed_pod(view, self.source.seen().world).says if view is not None else ()
        return {**found, "says": list(said)}

    def _try(self, body: Document) -> Document:
        tries = body.get("tries")
        if not isinstance(tries, list) or not 0 < len(tries) <= _MOST_TRIES:
            raise BadQuestion(f"tries: expected 1 to {_MOST_TRIES} of them")
        asked = []
        for each in tries:
            try:
                asked.append(msgspec.convert(each, Try))
            except msgspec.ValidationError:
                raise BadQuestion('tries: each is {"workload": "…", "choice": 0, "node": ""}') from None
        with self._lock:
            seen = self._readable()
            found, said = matrix_of(seen, asked, self._base(seen))
            return {**found.document(), "version": seen.version, "hypothesis": said}

    # ── changes ──

    def foresee(self, body: Document) -> Document:
        """Return what a change would do, and keep what to hold it against once it is made."""
        return self._simulated("what-if", body, self._foresee)

    def _foresee(self, seen: ClusterView, asked: Document, tick: Ticker) -> Document:
        question = Question.of(asked)
        document, forecast = foresee(seen, question, tick)
        change = question.change(seen.known.possible(())[0])
        objects = [each for each in seen.documents if each.get("kind") != "Pod"]
        foreseen = wave([change], forecast, objects)
        with self._lock:
            self._keep((seen.version, _plan_name(asked)), foreseen)
        return document

    def _make_plan(self, seen: ClusterView, asked: Document, tick: Ticker) -> Document:
        def show(stage: str, done: int, total: int) -> None:
            tick(done, total, stage)

        return make_plan(seen, asked, self.source.title(), show)

    def _simulated(
        self, kind: str, body: Document, work: Callable[[ClusterView, Document, Ticker], Document]
    ) -> Document:
        """Return what *work* says of a question; `job` of *body* is the page's name for the simulation.

        Only the results are kept under the lock: other screens are answered meanwhile.
        """
        asked = {name: value for name, value in body.items() if name != "job"}
        Question.of(asked)
        seen, job = self._readable(), str(body.get("job") or id(body))
        key = (seen.version, f"{kind} {_encoded(asked)}")
        with self._simulations.run(job) as tick:
            with self._lock:
                document: Document | None = self._kept.get(key)
            if document is None:
                document = work(seen, asked, tick)
                with self._lock:
                    self._keep(key, document)
        return {**document, "version": seen.version}

    def _progress(self, query: Query) -> Document:
        simulation = self._simulations.progress(query.get("job", ""))
        return {
            "schema": "weir.ui.progress/v1",
            "done": simulation.done,
            "total": simulation.total,
            "stage": simulation.stage,
        }

    def _cancel(self, body: Document) -> Document:
        job = body.get("job")
        if not isinstance(job, str) or not job:
            raise BadQuestion("job: expected the name that was given to the simulation")
        self._simulations.cancel(job)
        return {"schema": "weir.ui.progress/v1", "cancelled": True}

    def _allowed(self) -> None:
        if not self.source.live:
            raise BadQuestion("this is a dump of a cluster: nothing can be written")
        if self.read_only:
            raise BadQuestion("started with --read-only: nothing is written")

    def _rights(self, body: Document) -> Document:
        """Return what of a change the user may not do; what the cluster does not say counts as allowed."""
        self._allowed()
        name, asked = body.get("unrule"), body.get("question")
        if isinstance(name, str) and name:
            wanted = needs_to_untaint(name)
        elif isinstance(asked, dict):
            wanted = needs(self.source.seen(), Question.of(asked))
        else:
            raise BadQuestion(
                "expected question, the change that is asked about, or unrule, the name of a rule"
            )
        return {"schema": "weir.ui.rights/v1", "mayNot": denied(self.source, wanted)}

    def _apply(self, body: Document) -> Document:
        self._allowed()
        asked = body.get("question")
        if not isinstance(asked, dict):
            raise BadQuestion("question: expected the change that was asked about")
        question = Question.of(asked)
        commands = question.commands()
        if body.get("confirm") != commands[0]:
            raise BadQuestion(f"not confirmed: send confirm with exactly {commands[0]!r}")
        seen = self._readable()
        foreseen = self._kept.get((seen.version, _plan_name(asked)))
        if foreseen is None and question.kind != "apply":
            self.foresee(asked)
            foreseen = self._kept.get((self.source.seen().version, _plan_name(asked)))
        done = make(self.source, seen, question, self._drains)
        self._plan = foreseen
        return {"schema": "weir.ui.applied/v1", "done": done, "plan": foreseen is not None}

    def _unrule(self, body: Document) -> Document:
        self._allowed()
        name = body.get("name")
        if (
            not isinstance(name, str)
            or not name
            or body.get("confirm") != f"kubectl delete devicetaintrule {name}"
        ):
            raise BadQuestion("not confirmed: send name, and confirm with the command")
        return {"schema": "weir.ui.applied/v1", "done": [remove_rule(self.source, name)], "plan": False}

    def _reality(self, query: Query) -> Document:
        """Return the plan of the last change that was made beside what the cluster shows now."""
        checks = []
        if self._plan is not None:
            checks = [
                {"about": each.about, "foreseen": each.foreseen, "found": each.found, "held": each.held}
                for each in check_waves([self._plan], self.source.seen().documents)
            ]
        return {"schema": "weir.ui.reality/v1", "checks": checks, "drain": self._drains.lines()}


def _plan_name(asked: Document) -> str:
    return f"plan of what-if {_encoded(asked)}"


def _encoded(asked: Document) -> str:
    return msgspec.json.encode(asked, order="sorted").decode()


def _taint_keys(seen: ClusterView) -> list[str]:
    """Return the taint keys that nodes carry or workloads speak of, to choose from."""
    carried = {taint.key for node in seen.world.nodes.values() for taint in node.taints}
    for workload in seen.workloads:
        spec = workload.subject.pod_spec
        for each in (spec.get("tolerations") if isinstance(spec, dict) else None) or ():
            if isinstance(each, dict) and isinstance(each.get("key"), str) and each["key"]:
                carried.add(each["key"])
    return sorted(carried)
