"""What runs the notebooks tells the same on a slow machine."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests._notebooks import execute

SLOW = """
import time
for word in ("one", "two", "three"):
    print(word)
    time.sleep(0.5)  # the kernel sends what it has every fifth of a second
"""


@pytest.mark.slow
def test_what_a_cell_prints_in_pauses_is_one_output(tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell(SLOW)
    path = tmp_path / "slow.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    notebook, _ = execute(path, "print('{}')", tmp_path)
    (output,) = notebook.cells[0].outputs
    assert output.text == "one\ntwo\nthree\n"
