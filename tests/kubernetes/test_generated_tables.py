"""The checked-in tables are what Kubernetes' own code says today."""

import shutil

import pytest
from tools.generate import TABLES, generated


@pytest.mark.parametrize("program", TABLES)
def test_a_table_is_what_its_program_prints(program):
    if shutil.which("go") is None:
        pytest.skip("running tools/ needs Go, which is not on this machine")
    assert TABLES[program].read_bytes() == generated(program), "run make generate"
