"""One object on its way to the store: a new one, or one in place of another; and what each stage does with it.

Spec: apiserver.md 1.2 (conflicts), 4 "Create and update", 6 "managedFields". What differs between a create and an
update is in the two classes, what differs between kinds in their strategies (weir.apiserver.strategies). The order of
the stages, admission and the store are in .write_path; a forecast (weir.forecast.objects) takes them without a server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from weir import errors
from weir.apiserver import documents
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.patches import apply as server_side
from weir.apiserver.registry import conversion
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies import Context, for_kind
from weir.apiserver.transport.bodies import first_warnings
from weir.compat.customresources.served import CustomResourceKind
from weir.fields.field import FieldError, Tolerated
from weir.gates import Gates
from weir.objects import v1alpha4
from weir.objects.kind import Document, Kind
from weir.objects.kinds import hub_of
from weir.store import KeyValue, StoreError
from weir.store import backend as store_errors
from weir.values.integer import IntegerError, parse_uint64
from weir.values.names import generate_name

# ── identity of the object of a write: names, namespaces, versions and uids ──
# Spec: apiserver.md 1.2 (conflicts), 2 "Decoding" (name and namespace in body and URL), 4 "Create and update".


#: what a random digit becomes where a uid says that it is of the variant of RFC 9562
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; raises as upstream does, without a reason."""
    try:
        return parse_uint64(text)
    except IntegerError as error:
        raise errors.InternalError(str(error)) from None


def uid_text(key: str, given: str, stored_uid: str) -> str:
    """Return what a write says when it was meant for an earlier object of this name."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {given}, UID in object meta: {stored_uid}"
    )


def check_namespace(kind: Kind, metadata: Document, namespace: str) -> None:
    """Hold the namespace in the body against the one in the URL, and fill it in."""
    given = metadata.get("namespace")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def check_name(metadata: Document, name: str) -> None:
    """Hold the name in the body against the one in the URL."""
    given = metadata.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def check_patched_identity(new: Document, kind: Kind, namespace: str, name: str) -> None:
    """A patch may change neither name nor namespace."""
    metadata = new.setdefault("metadata", {})
    check_name(metadata, name)
    check_namespace(kind, metadata, namespace)


def check_new_identity(configuration: Document, kind: Kind, name: str) -> None:
    """A configuration that names an object by its uid does not make another one; a version it names is ignored."""
    metadata = configuration.get("metadata")
    if not isinstance(metadata, dict):
        return
    metadata.pop("resourceVersion", None)
    if uid := metadata.get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.Conflict.object(kind, name, text)


def keep_server_set(metadata: Document, was: Document) -> None:
    """Fill in what only the server sets; a uid that the client changed stays for validation."""
    metadata.pop("selfLink", None)
    if "creationTimestamp" in was:
        metadata["creationTimestamp"] = was["creationTimestamp"]
    else:
        metadata.pop("creationTimestamp", None)
    if "uid" not in was:
        metadata.pop("uid", None)
    elif not metadata.get("uid"):
        metadata["uid"] = was["uid"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):  # once there, they stay as they are
        if field in was:
            metadata[field] = was[field]
        elif not metadata.get(field):
            metadata.pop(field, None)
    if "generation" in was:
        metadata["generation"] = was["generation"]
    else:
        metadata.pop("generation", None)


def gone_with_this_update(kind: Kind, new: Document) -> bool:
    """Return whether the object has only waited for this update to go: terminating, nothing holds it."""
    metadata = new["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.kind == "Namespace" and kind.group == "":
        return not (new.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def new_uid(entropy: bytearray, random_bytes: Callable[[int], bytes]) -> str:
    """Return a fresh random uid; randomness is asked for in larger pieces and kept in *entropy*."""
    if len(entropy) < 16:
        entropy.extend(random_bytes(4096))
    text = entropy[-16:].hex()
    del entropy[-16:]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


# ── one object on its way to the store: a new one, or one in place of another; and what each stage does with it ──


class WriteContext(Context, Protocol):
    """What the stages may ask of the server: also randomness."""

    def random_bytes(self, count: int, /) -> bytes:
        """Return random bytes, for generated names."""

    def new_uid(self) -> str:
        """Return a fresh random uid."""


class ObjectWrite:
    """An object on its way to the store: in the client's version until it is complete, then in the stored one."""

    operation: ClassVar[str]
    code: ClassVar[int]  #: of the answer
    attributes: Attributes  #: as admission sees the write, once it begins
    revision: int  #: the one that is replaced; 0 for none
    _problems: list[FieldError]
    _relaxed: bool

    def __init__(
        self, request: WriteRequest, new: Document, old: Document | None, stored: KeyValue | None
    ) -> None:
        """*stored* holds *old*, the object that is replaced."""
        self.request, self.new, self.old, self.stored = request, new, old, stored
        self.kind = hub_of(request.kind)
        self.strategy = for_kind(self.kind)

    @property
    def metadata(self) -> Document:
        """The metadata of the new object."""
        metadata: Document = self.new.setdefault("metadata", {})
        return metadata

    @property
    def name(self) -> str:
        """The name of the object; "" while it has none."""
        return self.metadata.get("name") or ""

    @property
    def key(self) -> str:
        """Where the object is stored."""
        return self.kind.key(self.request.namespace, self.name)

    @property
    def is_last(self) -> bool:
        """Whether the object has only waited for this write to be removed."""
        return False

    # ----------------------------------------------------------------------------- the stages, in their order

    def identify(self) -> None:
        """Check that the object is the one the client means, and settle what of its metadata only the server sets."""
        raise NotImplementedError

    def complete(self, now: str) -> None:
        """Fill in the defaults, note which manager owns which field, and take the object to the stored version."""
        request = self.request
        self._default(now)
        if not request.owned:
            server_side.update_managed_fields(
                self.new,
                self.old,
                request.kind,
                manager=request.manager,
                subresource=request.subresource,
                now=now,
            )
        if request.kind is not self.kind:
            self._convert()

    def _default(self, now: str) -> None:
        """Fill in the defaults."""
        documents.default(self.new, self.request.kind, now)

    def _convert(self) -> None:
        """Take the object to the stored version."""
        self.new = conversion.to_storage(self.request.kind, self.new)

    def begin_admission(self) -> Attributes:
        """Return the write as admission sees it."""
        self.attributes = self.request.attributes(
            self.operation, object=self.new, old=self.old, kind=self.kind, name=self.name
        )
        return self.attributes

    def take_mutated(self) -> None:
        """Go on with the object that a webhook or a policy may have put in place of this one."""
        self.new = self.attributes.object or self.new
        check_namespace(self.kind, self.metadata, self.request.namespace)

    def prepare(self, context: WriteContext) -> None:
        """Set what the server sets and what the kind's strategy does."""
        raise NotImplementedError

    def hold_against_others(self, context: WriteContext) -> None:
        """Collect what is wrong with the object in view of others that are stored; reads shared state."""
        strategy, request = self.strategy, self.request
        self._relaxed = request.kind.version == v1alpha4.VERSION or strategy.relaxes(
            self.kind, self.new, context
        )
        self._problems = [*strategy.problems(self.kind, self.new, self.old, context, dry_run=request.dry_run)]

    def validate(self, gates: Gates) -> None:
        """Validate the object by itself, and collect the warnings about it; raises 422."""
        request, kind = self.request, self.kind
        problems = self._problems + documents.validate(
            self.new, self.old, kind, gates, subresource=request.subresource, relaxed=self._relaxed
        )
        request.warnings.extend(str(problem) for problem in problems if isinstance(problem, Tolerated))
        errors_found = [problem for problem in problems if not isinstance(problem, Tolerated)]
        if errors_found:
            raise errors.Invalid.from_field_errors(kind, self.name or request.name, errors_found)
        request.warnings.extend(first_warnings(self.strategy.warnings(kind, self.new, self.old)))

    def settle(self) -> None:
        """Make of the object what storing leaves of it."""
        documents.settle(self.new, self.kind)

    # ------------------------------------------------------------------------------------------- the outcome

    def shown(self) -> Document:
        """Return the object in the client's version."""
        served = self.request.kind
        return self.new if served is self.kind else conversion.from_storage(served, self.new)

    def lost(self, error: StoreError) -> None:
        """Raise why the object could not be stored; return when the write may be tried on the newer one."""
        raise NotImplementedError


class Creation(ObjectWrite):
    """A new object."""

    operation, code, revision = CREATE, 201, 0

    def __init__(self, request: WriteRequest, new: Document) -> None:
        super().__init__(request, new, None, None)

    def identify(self) -> None:
        """Check that the object may be created in its namespace, and drop what a new one cannot have."""
        kind, metadata = self.request.kind, self.metadata
        check_namespace(kind, metadata, self.request.namespace)
        if isinstance(kind, CustomResourceKind) and kind.terminating:
            reason = "create not allowed while custom resource definition is terminating"
            raise errors.Forbidden.admission(kind, self.name, reason)
        if metadata.get("resourceVersion"):
            raise errors.InternalError("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)  # before they become owned
        if kind.has_status and not kind.status_on_create:
            self.new.pop("status", None)

    def prepare(self, context: WriteContext) -> None:
        """Name the object, set what a new one gets from the server, and what its kind's strategy does."""
        kind, new, metadata = self.kind, self.new, self.metadata
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = generate_name(metadata["generateName"], context.random_bytes)
            self.attributes.name = metadata["name"]
        metadata["uid"] = context.new_uid()
        metadata["creationTimestamp"] = context.now
        for field in ("generation", "selfLink"):
            metadata.pop(field, None)
        self.strategy.set_requester(new, self.request.user.info())
        self.strategy.prepare_create(kind, new, context)
        if kind.has_status and "status" not in new and "status" in (empty := documents.zero_fields(kind)):
            new["status"] = dict(empty["status"])

    def lost(self, error: StoreError) -> None:
        """Raise that the name is taken."""
        raise errors.AlreadyExists.object(self.kind, self.name)


class Replacement(ObjectWrite):
    """An object in place of a stored one: an update, a patch, an apply, a status, a scale."""

    operation, code = UPDATE, 200
    old: Document
    stored: KeyValue
    names_version: bool  #: the client named the version it read: no other is replaced

    def __init__(self, request: WriteRequest, new: Document, old: Document, stored: KeyValue) -> None:
        super().__init__(request, new, old, stored)
        self.revision = stored.mod_revision

    @property
    def is_last(self) -> bool:
        """Whether the object has only waited for this write to be removed."""
        return gone_with_this_update(self.kind, self.new)

    def identify(self) -> None:
        """Hold version and uid against those of the stored object, and keep what only the server sets."""
        request, metadata, before = self.request, self.metadata, self.old["metadata"]
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if request.patched and version == before["resourceVersion"]:
            version = None  # the patch left the version alone
        if version and version not in ("0", before["resourceVersion"]):
            parse_version(version)
            raise errors.Conflict.object(request.kind, request.name)
        if uid and uid != before["uid"] and not request.patched:
            text = uid_text(request.kind.key(request.namespace, request.name), uid, before["uid"])
            raise errors.Conflict.object(request.kind, request.name, text)
        metadata["resourceVersion"] = before["resourceVersion"]
        self.names_version = bool(version)
        keep_server_set(metadata, before)

    def _default(self, now: str) -> None:
        """Fill in what the stored object has, then the defaults; put back what the endpoint may not change."""
        request = self.request
        self.strategy.recall(self.new, self.old)
        if request.subresource != "scale":  # whose change is made to the object as it is stored
            super()._default(now)
        self.strategy.restrict(request.kind, self.new, self.old, request.subresource)

    def _convert(self) -> None:
        super()._convert()
        self.old = conversion.to_storage(self.request.kind, self.old)

    def prepare(self, context: WriteContext) -> None:
        """Let the kind's strategy count the change and keep what it must."""
        self.strategy.prepare_update(self.kind, self.new, self.old, context)
        if self.request.subresource == "status" and "generation" in self.old["metadata"]:
            # A status is no change of what is wanted, even where annotations come along (a Deployment's revision).
            self.metadata["generation"] = self.old["metadata"]["generation"]

    def lost(self, error: StoreError) -> None:
        """Raise that the object is gone, or another than the client named; return when the newer one will do."""
        if isinstance(error, store_errors.Missing):
            raise errors.NotFound.object(self.kind, self.request.name)
        if self.names_version:
            raise errors.Conflict.object(self.kind, self.request.name)
