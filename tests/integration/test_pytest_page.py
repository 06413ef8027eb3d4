"""docs/howto/test-with-pytest.md: the code of the page, run as the reader would run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-with-pytest.md"


def test_the_code_of_the_page_is_a_test_file_that_passes(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "test_page.py").write_text("\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
