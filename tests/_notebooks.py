"""Run notebooks as a reader would, and what holds for every one of them."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]

#: A notebook after a run, and what its probe printed.
Executed = tuple[Any, dict[str, Any]]

#: Two or more path components from the root, or a drive letter.
ABSOLUTE = re.compile(r"(?<![\w.)$}])(?:/[A-Za-z_][\w.-]*){2,}|\b[A-Z]:\\\\")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def text_of(cell: Any) -> str:
    return "".join(out.text for out in cell.get("outputs", []) if out.output_type == "stream")


def tagged(notebook: Any, tag: str) -> int:
    (index,) = (i for i, cell in enumerate(notebook.cells) if tag in cell.metadata.get("tags", []))
    return index


def execute(path: Path, probe: str, folder: Path) -> Executed:
    """The notebook after a run by this interpreter in an empty folder, and what ``probe`` prints.

    ``probe`` is code for a last cell; it prints one JSON object.
    """
    notebook = read(path)
    notebook.cells.append(nbformat.v4.new_code_cell(probe))
    work = folder / "work"
    work.mkdir()
    python_path = os.environ.get("PYTHONPATH")
    paths = [str(ROOT), *([python_path] if python_path else [])]
    run(notebook, Path(sys.executable), os.pathsep.join(paths), work, folder)
    assert list(work.iterdir()) == []  # the notebook leaves nothing behind
    return notebook, json.loads(text_of(notebook.cells[-1]))


def run(notebook: Any, python: Path, python_path: str, work: Path, folder: Path) -> None:
    """Run all cells by this interpreter in the folder ``work``; the other one gets Jupyter's files.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell has failed.
    """
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        json.dumps(
            {
                "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "Python 3",
                "language": "python",
            }
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("PYTHONPATH", python_path)
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            coalesce_streams=True,  # else a slow machine cuts what one cell prints into several
            resources={"metadata": {"path": work}},
        )
        client.execute()


def source_up_to(notebook: Any, tag: str, *edits: tuple[str, str]) -> str:
    """The code of the cells up to a tagged one, with texts replaced that occur once."""
    cells = notebook.cells[: tagged(notebook, tag) + 1]
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return source


def names_after(source: str) -> dict[str, Any]:
    """The variables after a run of this code in this process, which shows no figure."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch, plt.rc_context({"backend": "agg"}):
        patch.setattr(plt, "show", lambda: None)
        exec(compile(source, "notebook", "exec"), names)
    plt.close("all")
    return names


class NotebookSuite:
    """The tests that every notebook has to pass. A derived class names one and adds its own tests.

    Attributes:
        path: of the notebook.
        probe: code for :func:`execute`, which prints what the class's own tests look at.
        figures: how many the notebook shows.
    """

    path: ClassVar[Path]
    probe: ClassVar[str]
    figures: ClassVar[int] = 1

    @pytest.fixture(scope="class")
    @classmethod
    def executed(cls, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        return execute(cls.path, cls.probe, tmp_path_factory.mktemp("notebook"))

    @pytest.mark.slow
    def test_runs_without_a_word_of_warning(self, executed: Executed) -> None:
        notebook, _ = executed
        outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
        assert {out.output_type for out in outputs} <= {"stream", "display_data"}
        assert [out.text for out in outputs if out.get("name") == "stderr"] == []

    @pytest.mark.slow
    def test_the_stored_answer_is_that_of_a_fresh_run(self, executed: Executed) -> None:
        stored, (notebook, _) = read(self.path), executed
        for kept, fresh in zip(stored.cells, notebook.cells[:-1], strict=True):
            assert len(kept.get("outputs", [])) == len(fresh.get("outputs", []))
        index = tagged(stored, "answer")
        assert text_of(stored.cells[index]) == text_of(notebook.cells[index])

    def test_it_is_small_neutral_and_complete(self) -> None:
        """Every code cell was run in order and printed something; it names no machine."""
        stored = read(self.path)
        assert self.path.stat().st_size < 400_000
        assert stored.metadata["kernelspec"]["name"] == "python3"
        assert set(stored.metadata) == {"kernelspec", "language_info"}
        code = [cell for cell in stored.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        outputs = [out for cell in code for out in cell.outputs]
        assert len([out for out in outputs if "image/png" in out.get("data", {})]) == self.figures
        assert all(cell.outputs for cell in code[1:])
        assert all(out.get("name") != "stderr" for out in outputs)
        assert all(sum(out.output_type == "stream" for out in cell.outputs) <= 1 for cell in code)
        assert ABSOLUTE.search("in /home/someone/agents.npz")
        for cell in stored.cells:
            shown = [
                str(value)
                for out in cell.get("outputs", [])
                for kind, value in {**out.get("data", {}), "text": out.get("text", "")}.items()
                if not kind.startswith("image/")
            ]
            for text in (cell.source, str(cell.metadata), *shown):
                assert not ABSOLUTE.search(text)
