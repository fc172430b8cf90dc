"""Flower's own programs with the options that a run of ours needs.

No program here installs anything at run time, sends telemetry, or speaks plain text beyond this
machine. An app is a folder with the user's setup and a ``pyproject.toml`` that names
:mod:`lora_bridge.flower.apps`; Flower hands it to all SuperNodes, which must have this package and
its pinned dependencies themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from linsys._validate import InputError, whole
from lora_bridge.flower.addresses import check, file_of, reach

__all__ = [
    "ENDED",
    "OPTIONS",
    "environment",
    "located",
    "program",
    "running",
    "simulate",
    "submit",
    "superlink",
    "supernode",
    "write_app",
]

#: A run's own options and their defaults; 0 as ``least`` stands for all clients.
OPTIONS: Mapping[str, Any] = {"least": 0, "timeout": 600.0, "gather": 120.0, "attempts": 1}
#: Begins the last line of a run, which :mod:`lora_bridge.flower.apps` prints.
ENDED = "ratecheck run:"
_NAME = "ratecheck"
#: Seconds that a program has to end when it is asked to.
_PATIENCE = 10.0


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's programs: no telemetry, no updates, files under ``home``."""
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def program(name: str) -> str:
    """The path of one of Flower's programs.

    Raises:
        InputError: Flower is not installed beside this Python.
    """
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise InputError(f"Flower must be installed (the extra 'flower'); found no {name}")
    return found


def located(setup: Path | str) -> tuple[Path | None, str]:
    """The file of a setup, where it is in one, and its "module:function".

    >>> located("package.module:function")
    (None, 'package.module:function')

    Raises:
        InputError: something else than "file.py:function" or "package.module:function"; no such
            file.
    """
    source, _, function = str(setup).rpartition(":")
    if not source or not function:
        raise InputError(
            f"`setup` must be file.py:function or package.module:function; found {str(setup)!r}"
        )
    if not source.endswith(".py"):
        return None, f"{source}:{function}"
    if not Path(source).is_file():
        raise InputError(f"`setup` must be file.py:function; found no file {source}")
    return Path(source), f"{Path(source).stem}:{function}"


def write_app(
    folder: Path | str, setup: Path | str, config: Mapping[str, Any] | None = None
) -> Path:
    """Write an app's folder.

    Args:
        folder: made where it does not exist.
        setup: "file.py:function", which is copied there, or "package.module:function".
        config: options of the run: ``folder``, where server and clients keep their files, those of
            :data:`OPTIONS`, and what the setup asks for.

    Raises:
        InputError: as :func:`located`; an option that is no number or text.
    """
    source, name = located(setup)
    base = Path(folder)
    base.mkdir(parents=True, exist_ok=True)
    if source is not None:
        shutil.copyfile(source, base / source.name)
    options = {"folder": str(Path("federation").absolute()), **OPTIONS, **(config or {})}
    options["setup"] = name
    lines = [f"{json.dumps(name)} = {_toml(name, value)}" for name, value in options.items()]
    text = _PYPROJECT + "\n".join(lines) + "\n"
    (base / "pyproject.toml").write_text(text, encoding="utf-8")
    return base


def superlink(
    address: str,
    certificates: Sequence[Path] | None = None,
    *,
    database: Path | None = None,
    simulation: bool = False,
) -> list[str]:
    """The command of a SuperLink.

    Args:
        address: host:port to listen at.
        certificates: of the authority, of the server, and the server's key, for TLS.
        database: file that the SuperLink knows its SuperNodes from when it starts again; without
            one they have to be started again too.
        simulation: whether clients are simulated on this machine.

    Raises:
        InputError: plain text at another address than this machine's loopback, certificates that
            are not there.
    """
    host, port = check(address, certificates is not None)
    for path in certificates or ():
        file_of("certificates", path)
    command = [program("flower-superlink"), "--host", host, "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    command += [] if database is None else ["--database", str(database)]
    return command + ["--simulation"] * simulation + _server_tls(certificates)


def supernode(
    address: str, client: int, folder: Path | str, authority: Path | None = None, port: int = 9094
) -> list[str]:
    """The command of a client's SuperNode.

    Args:
        address: the SuperLink's.
        client: number of the client.
        folder: where the client keeps its own state.
        authority: certificate that vouches for the SuperLink; none for plain text on loopback.
        port: of this machine, for the SuperNode's own processes.

    Raises:
        InputError: plain text to another machine, a SuperLink that does not answer.
    """
    reach(address, authority)
    node = f'client={client} folder="{Path(folder).absolute()}"'
    command = [program("flower-supernode"), "--superlink", address, "--node-config", node]
    return [*command, "--port", str(port), *_client_tls(authority)]


def submit(
    app: Path | str,
    address: str,
    home: Path,
    authority: Path | None = None,
    *,
    more: Sequence[str] = (),
    tell: Callable[[str], None] = print,
) -> str:
    """Run an app on a SuperLink and wait for its end.

    Args:
        app: the folder of :func:`write_app`.
        address: the SuperLink's.
        home: for Flower's own files.
        authority: certificate that vouches for the SuperLink.
        more: further options of ``flwr run``.
        tell: is given every line of the run's log.

    Returns:
        SHA-256 of the final adapters.

    Raises:
        InputError: a folder without an app, plain text to another machine, a SuperLink that does
            not answer, a run that failed, with its reason.
    """
    reach(address, authority)
    file_of("app", Path(app) / "pyproject.toml")
    home.mkdir(parents=True, exist_ok=True)
    where = f"insecure = {'true' if authority is None else 'false'}"
    if authority is not None:
        where += f"\nroot-certificates = {json.dumps(str(authority.absolute()))}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{_NAME}"\n[superlink.{_NAME}]\naddress = "{address}"\n{where}\n',
        encoding="utf-8",
    )
    command = [program("flwr"), "run", str(app), _NAME, "--stream", *more]
    end = last = ""
    with subprocess.Popen(
        command,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tell(line.rstrip())
            last = line.strip() or last
            if line.startswith(ENDED):  # Flower itself may wait for clients that are late
                end = line.removeprefix(ENDED).strip()
                process.terminate()
                break
    word, _, rest = end.partition(" ")
    if word != "sha256":
        raise InputError(rest or f"the run must end with adapters; found the end {last!r:.200}")
    return rest.split()[0]


def simulate(
    app: Path | str, clients: int, home: Path, *, tell: Callable[[str], None] = print
) -> str:
    """Run an app with clients that Flower simulates on this machine, as :func:`submit`."""
    whole("clients", clients, low=1)
    file_of("app", Path(app) / "pyproject.toml")
    address = f"127.0.0.1:{free_port()}"
    options = f"num-supernodes={clients} client-resources-num-cpus=1"
    with running(superlink(address, simulation=True), home, address):
        more = ["--federation-config", options]
        return submit(app, address, home, more=more, tell=tell)


@contextmanager
def running(
    command: Sequence[str], home: Path, address: str = "", wait: float = 60.0
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Flower's with all that it starts, ended at the end.

    Args:
        command: of :func:`superlink` or :func:`supernode`.
        home: for Flower's own files and the program's log.
        address: waits until there is an answer there.
        wait: seconds to wait.

    Raises:
        InputError: no answer.
    """
    home.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(suffix=".log", prefix=f"{Path(command[0]).name}-", dir=home)
    with os.fdopen(number, "wb") as log:
        process = subprocess.Popen(
            command,
            env=environment(home),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # an interrupt is for us: we end it
        )
    try:
        if address:
            _answering(process, address, wait, Path(name))
        yield process
    finally:
        _end(process)


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _answering(process: subprocess.Popen[bytes], address: str, wait: float, log: Path) -> None:
    """Wait until a program listens."""
    end = time.monotonic() + wait
    while process.poll() is None and time.monotonic() < end:
        try:
            with socket.create_connection(check(address, encrypted=True), 1.0):
                return
        except OSError:
            time.sleep(0.1)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    found = lines[-1] if lines else "nothing in its log"
    raise InputError(
        f"the SuperLink must answer at {address} within {wait:g} s; found {found:.200}"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it has started: first by asking, then not."""
    with suppress(psutil.NoSuchProcess):
        group = [psutil.Process(process.pid)]
        group += group[0].children(recursive=True)  # some have sessions of their own
        for one in group:
            with suppress(psutil.NoSuchProcess):
                one.terminate()
        for one in psutil.wait_procs(group, timeout=_PATIENCE)[1]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


def _server_tls(certificates: Sequence[Path] | None) -> list[str]:
    if certificates is None:
        return ["--insecure"]
    names = ("--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile")
    pairs = zip(names, certificates, strict=True)
    return [part for name, path in pairs for part in (name, str(path))]


def _client_tls(authority: Path | None) -> list[str]:
    return ["--insecure"] if authority is None else ["--root-certificates", str(authority)]


def _toml(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value))
    raise InputError(f"option {name} must be a number or a text; found {value!r:.60}")


_PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "federation"
version = "1.0.0"
description = "A federated run"
license = "MIT"
dependencies = [] # what SuperNodes have is pinned there: nothing is installed at run time

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "ratecheck"

[tool.flwr.app.components]
serverapp = "lora_bridge.flower.apps:server"
clientapp = "lora_bridge.flower.apps:client"

[tool.flwr.app.config]
"""
