"""The setup of docs/flower.md runs as it is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lora_bridge.flower import rehearse
from lora_bridge.flower.federation import load_setup
from tests.lora_bridge.test_models import TINY

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"


def test_the_setup_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("lora_bridge.built_in.BuiltIn", lambda: TINY)
    [code] = re.findall(r"```python\n(# federation\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "page_federation.py").write_text(code)
    for client in range(3):
        record = {"instruction": f"What is {client} + 1?", "input": "", "answer": str(client + 1)}
        lines = [json.dumps(record | {"output": ""})] * 2
        (tmp_path / f"client-{client}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = load_setup("page_federation:setup", {"model": "", "data": str(tmp_path)})
    result = rehearse(made, tmp_path / "files")
    assert (result.rounds, result.missing) == (3, ())
