"""The tables taken over from Kubernetes are what their programs print: nobody edited them, none is out of date."""

import json

import msgspec
import pytest
from tools.generate import RECORD, TABLES, kubernetes_version, made_from

from tests.kubernetes.oracles import pinned_version
from weir.apiserver.printers import PRINTED, cells_of
from weir.apiserver.printers.tables import _data, columns
from weir.objects import schema
from weir.objects.core import NodeSelectorRequirement, Toleration
from weir.objects.kinds import KINDS


@pytest.mark.parametrize("program", TABLES)
def test_a_table_is_as_its_program_left_it(program):
    recorded = json.loads(RECORD.read_text())[program]
    assert recorded == made_from(program), f"{TABLES[program].name} is out of date: run make generate"


def test_tables_and_the_programs_of_the_tests_come_from_one_kubernetes():
    assert kubernetes_version() == pinned_version()


def test_every_message_of_the_protobuf_table_is_there_and_has_the_fields_of_its_struct():
    messages = json.loads(TABLES["protobuf"].read_text())
    for name, fields in messages.items():
        inner = {code[2:] for _, code, _ in fields.values() if code.startswith("m:")}
        assert inner <= messages.keys(), name
        if name in schema.struct_names():
            plain = {json_name for json_name, _, flags in fields.values() if flags != "<"}
            assert plain <= schema.struct(name).fields.keys(), name


@pytest.mark.proves("5500-108")
def test_a_toleration_has_one_field_more_than_upstreams():
    fields = json.loads(TABLES["protobuf"].read_text())["core.v1.Toleration"].values()
    upstream = {name for name, _, flags in fields if flags != "<"}
    assert schema.struct("core.v1.Toleration").fields.keys() - upstream == {"expression"}
    view = {field.encode_name for field in msgspec.structs.fields(Toleration)}
    assert view == {"key", "operator", "value", "effect", "tolerationSeconds", "expression"}


@pytest.mark.proves("5500-12")
def test_a_node_selector_requirement_has_no_field_for_an_expression():
    fields = schema.struct("core.v1.NodeSelectorRequirement").fields.keys()
    view = {field.encode_name for field in msgspec.structs.fields(NodeSelectorRequirement)}
    assert fields == view == {"key", "operator", "values"}


@pytest.mark.proves("5471-120", "5721-129")
def test_every_served_kind_has_a_message():
    messages = json.loads(TABLES["protobuf"].read_text())
    for kind in KINDS:
        if kind.stored and kind.version != "v1alpha4":
            group = (kind.group or "core").partition(".")[0]
            assert f"{group}.{kind.version}.{kind.kind}" in messages, kind


def test_every_printed_kind_has_as_many_columns_as_cells():
    table = json.loads(TABLES["columns"].read_text())
    assert table.keys() == PRINTED
    for kind in KINDS:
        if kind.kind in PRINTED:
            empty = {"metadata": {"name": "n"}, **({"spec": {}} if kind.kind != "Event" else {})}
            # Kubernetes prints the age of an IPAddress without a column for it.
            more = 1 if kind.kind == "IPAddress" else 0
            assert len(cells_of(kind, empty, 0.0)) == len(table[kind.kind]) + more, kind


def test_every_column_is_described_once_in_weirs_own_words():
    table = json.loads(TABLES["columns"].read_text())
    assert {column[0] for kind in table.values() for column in kind} == _data("descriptions.json").keys()
    assert all(column["description"] for kind in KINDS for column in columns(kind))


def test_every_binding_of_a_new_cluster_names_a_role_of_it():
    rows = json.loads(TABLES["rbac"].read_text())
    roles = {(row["kind"], row["metadata"]["name"]) for row in rows if "roleRef" not in row}
    bound = {(row["roleRef"]["kind"], row["roleRef"]["name"]) for row in rows if "roleRef" in row}
    assert bound <= roles and len(roles) > 50


def test_every_struct_that_go_names_mention_is_in_the_table():
    table = json.loads(TABLES["gonames"].read_text())
    for name, fields in table.items():
        for field in fields.split():
            kind = field.partition(":")[2].lstrip("*[]")
            assert kind in ("", "i", "b", "q", "p", "m") or kind in table, (name, field)
