"""``python -m lora_bridge.flower``: federated runs in this process, in a simulation, on machines.

An own command, since Flower's environment is not the one of ``ratecheck``: see docs/flower.md. It
leaves 0 when all is done; 1 when a run, or a program of Flower's, has failed; 2 when the arguments
or the input are wrong; 128 + its number after a signal (130 after Ctrl-C, 143 after SIGTERM).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from linsys.validate import InputError
from lora_bridge.flower import launch
from lora_bridge.flower.app_folder import OPTIONS, located, write_app
from lora_bridge.flower.federation import load_setup
from lora_bridge.flower.local import rehearse as run_here
from lora_bridge.flower.processes import Failed, leave_by_signals, running
from lora_bridge.flower.rounds import Rules, TooFewClients

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Options = Annotated[list[str], typer.Option("--set", help="NAME=VALUE, an option of the run.")]
Home = Annotated[Path, typer.Option(help="For Flower's own files and logs.")]
Authority = Annotated[
    Path | None, typer.Option(help="Certificate that vouches for the SuperLink; TLS with it.")
]
_HOME = Path("flower-home")


@app.command()
def rehearse(setup: str, folder: Path = Path("federation"), options: Options = []) -> None:  # noqa: B006
    """Run SETUP (file.py:function or package.module:function) in this process, without Flower."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    source, name = located(setup)
    where = None if source is None else source.absolute().parent
    config = {**OPTIONS, **_options(options)}
    federation = load_setup(name, config, where)
    result = run_here(federation, folder, Rules.of(config))
    print(f"sha256 {result.sha256} after {result.rounds} rounds in {folder / 'server'}")


@app.command()
def write(folder: Path, setup: str, options: Options = []) -> None:  # noqa: B006
    """Write the Flower app FOLDER of a SETUP."""
    write_app(folder, setup, _options(options))
    print(f"wrote {folder}")


@app.command()
def simulate(folder: Path, clients: int, home: Home = _HOME) -> None:
    """Run the app FOLDER with so many clients that Flower simulates on this machine."""
    print(f"sha256 {launch.simulate(folder, clients, home)}")


@app.command()
def superlink(
    address: str,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with ca.crt, server.pem and server.key, for TLS.")
    ] = None,
    home: Home = _HOME,
) -> None:
    """Start a SuperLink at ADDRESS (host:port)."""
    names = ("ca.crt", "server.pem", "server.key")
    files = None if certificates is None else [certificates / name for name in names]
    _run_until_signal(
        launch.superlink(address, files, database=home.absolute() / "superlink.db"), home
    )


@app.command()
def supernode(
    address: str,
    client: int,
    folder: Path = Path("federation"),
    authority: Authority = None,
    port: int = 9094,
    home: Home = _HOME,
) -> None:
    """Start the SuperNode of a CLIENT (its number) of the SuperLink at ADDRESS."""
    _run_until_signal(launch.supernode(address, client, folder, authority, port), home)


@app.command()
def run(folder: Path, address: str, authority: Authority = None, home: Home = _HOME) -> None:
    """Run the app FOLDER on the SuperLink at ADDRESS and wait for the end."""
    print(f"sha256 {launch.submit(folder, address, home, authority)}")


def _run_until_signal(command: list[str], home: Path) -> None:
    """Run a program of Flower until a signal comes."""
    with running(command, home) as program:
        print(f"{program.name} runs; its log is {program.log}", flush=True)
        program.wait()


def _options(pairs: list[str]) -> dict[str, Any]:
    """Pairs NAME=VALUE as a dictionary, with numbers where values are numbers."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InputError(f"`--set` must be NAME=VALUE; found {pair!r}")
        options[name] = _value(text)
    return options


def _value(text: str) -> int | float | str:
    kinds: tuple[Callable[[str], Any], ...] = (int, float)
    for kind in kinds:
        try:
            number: int | float = kind(text)
        except ValueError:
            continue
        return number
    return text


if __name__ == "__main__":
    leave_by_signals()
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, Failed | TooFewClients) else 2)
