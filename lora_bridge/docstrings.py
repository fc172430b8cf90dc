"""Text that is always at hand, and a tokenizer that needs no training: one token per byte."""

from __future__ import annotations

import ast
import functools
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["BYTES", "byte_tokenizer", "docstrings", "documents"]

#: How the byte tokenizer writes prompts (:mod:`lora_bridge.templates`): every text begins with <s>.
BYTES = "{{ bos_token }}{{ text }}"

#: Modules of the standard library with much plain English in their docstrings.
_MODULES = """
    argparse ast asyncio/events calendar collections/__init__ configparser contextlib copy
    csv datetime difflib doctest email/message fractions functools heapq http/client inspect
    ipaddress json/__init__ logging/config mailbox optparse os pathlib pickletools pprint
    random shutil socket statistics string subprocess tarfile tempfile textwrap threading
    turtle types typing unittest/case unittest/mock urllib/request zipfile
"""


@functools.cache  # each load of a built-in model asks for them
def documents() -> tuple[str, ...]:
    """The docstrings of a part of Python's standard library, read from its sources once."""
    texts: list[str] = []
    for name in _MODULES.split():
        path = Path(sysconfig.get_path("stdlib")) / f"{name}.py"
        if path.is_file():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
            texts += [text for node in nodes if (text := ast.get_docstring(node))]
    return tuple(texts)


def docstrings() -> str:
    """All :func:`documents` as one text."""
    return "\n\n".join(documents())


def byte_tokenizer() -> Any:
    """A transformers tokenizer with the 256 bytes as tokens, and <pad>, <s> and </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<pad>", "<s>", "</s>"]
    vocabulary = {token: i for i, token in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        chat_template=BYTES,
    )
