"""Flower's own programs with the options that a run of ours needs.

No program here installs anything at run time, sends telemetry, or speaks plain text beyond this
machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from linsys.validate import InputError, check_integer
from lora_bridge.failures import writing_explained
from lora_bridge.flower.addresses import check, file_of, reach, unused
from lora_bridge.flower.processes import (
    Failed,
    free_port,
    program,
    running,
    started,
)

__all__ = ["ENDED", "simulate", "submit", "superlink", "supernode"]

#: Begins the last line of a run, which :mod:`lora_bridge.flower.apps` prints.
ENDED = "ratecheck run:"
_NAME = "ratecheck"
#: Seconds for the SuperLink to stop a run.
_STOP = 20.0
#: What Flower draws around errors.
_BOX = " │╭╮╰╯─"
_RUN = re.compile(r"Successfully started run (\d+)")


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
            are not there, an address that is in use or of another machine.
    """
    host, port = check(address, certificates is not None)
    for path in certificates or ():
        file_of("certificates", path)
    unused("superlink", host, port)
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
        InputError: plain text to another machine, a SuperLink that does not answer, a port that is
            in use.
    """
    reach(address, authority)
    check_integer("client", client, low=0)
    unused("port", "127.0.0.1", port)
    node = f'client={client} folder="{Path(folder).absolute()}"'
    command = [program("flower-supernode"), "--superlink", address, "--node-config", node]
    return [*command, "--port", str(port), *_client_tls(authority)]


def submit(
    app: Path | str,
    address: str,
    home: Path,
    authority: Path | None = None,
    *,
    tell: Callable[[str], None] = print,
) -> str:
    """Run an app on a SuperLink and wait for its end.

    Args:
        app: the folder of :func:`lora_bridge.flower.app_folder.write_app`.
        address: the SuperLink's.
        home: for Flower's own files.
        authority: certificate that vouches for the SuperLink.
        tell: is given every line of the run's log.

    Returns:
        SHA-256 of the final adapters.

    The run ends with this function, also where an exception ends it.

    Raises:
        InputError: a folder without an app, plain text to another machine, a SuperLink that does
            not answer.
        Failed: the run did not end with adapters; with its reason.
    """
    reach(address, authority)
    file_of("app", Path(app) / "pyproject.toml")
    number = ""

    def heard(line: str) -> None:
        nonlocal number
        match = _RUN.match(line)
        number = match[1] if match else number
        tell(line)

    with _flower_config(address, home, authority) as own:
        try:
            sha256 = _run_to_end(app, own, heard)
        except BaseException:  # an interrupt too: nobody would follow the run any more
            if number:
                _stop(number, own, address, authority)
            raise
    return sha256


def simulate(
    app: Path | str, clients: int, home: Path, *, tell: Callable[[str], None] = print
) -> str:
    """Run an app with clients that Flower simulates on this machine, as :func:`submit`."""
    check_integer("clients", clients, low=1)
    file_of("app", Path(app) / "pyproject.toml")
    address = f"127.0.0.1:{free_port()}"
    options = f"num-supernodes={clients} client-resources-num-cpus=1"
    start = running(superlink(address, simulation=True), home, address)
    with start, _flower_config(address, home, None) as own:
        return _run_to_end(app, own, tell, ["--federation-config", options])


@contextmanager
def _flower_config(address: str, home: Path, authority: Path | None) -> Iterator[Path]:
    """A folder with ``flwr``'s configuration, for us alone: others may use other SuperLinks."""
    where = f"insecure = {'true' if authority is None else 'false'}"
    if authority is not None:
        where += f"\nroot-certificates = {json.dumps(str(authority.absolute()))}"
    with writing_explained("`home`", home):
        home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flwr-", dir=home.absolute()) as own:
        (Path(own) / "config.toml").write_text(
            f'[superlink]\ndefault = "{_NAME}"\n'
            f'[superlink.{_NAME}]\naddress = "{address}"\n{where}\n',
            encoding="utf-8",
        )
        yield Path(own)


def _run_to_end(
    app: Path | str, own: Path, tell: Callable[[str], None], more: Sequence[str] = ()
) -> str:
    """Let ``flwr run`` run an app and follow its log; SHA-256 of the final adapters."""
    command = [program("flwr"), "run", str(app), _NAME, "--stream", *more]
    end = last = ""
    with started(command, own, subprocess.PIPE) as process:
        assert process.stdout is not None
        for data in process.stdout:
            line = data.decode("utf-8", "replace").rstrip()
            tell(line)
            last = line.strip(_BOX) or last
            if line.startswith(ENDED):  # Flower itself may wait for clients that are late
                end = line.removeprefix(ENDED).strip()
                break
    word, _, rest = end.partition(" ")
    if word != "sha256":
        raise Failed(rest or f"the run must end with adapters; found the end {last!r:.200}")
    return rest.split()[0]


def _stop(number: str, own: Path, address: str, authority: Path | None) -> None:
    """Stop a run, where the SuperLink is still there."""
    with suppress(InputError, subprocess.TimeoutExpired):
        reach(address, authority)
        command = [program("flwr"), "stop", number, _NAME]
        with started(command, own, subprocess.DEVNULL) as process:
            process.wait(_STOP)


def _server_tls(certificates: Sequence[Path] | None) -> list[str]:
    if certificates is None:
        return ["--insecure"]
    names = ("--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile")
    pairs = zip(names, certificates, strict=True)
    return [part for name, path in pairs for part in (name, str(path))]


def _client_tls(authority: Path | None) -> list[str]:
    return ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
