"""Addresses, certificates, apps: what is refused before anything is sent. Needs no Flower."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from linsys import InputError
from lora_bridge.flower import app_folder, launch, processes
from lora_bridge.flower.__main__ import _options, app as typed, rehearse
from lora_bridge.flower.addresses import check, reach, unused
from lora_bridge.flower.federation import load_setup


@pytest.mark.parametrize(
    "address", ["10.0.0.1:8000", "0.0.0.0:8000", "no.such.host.invalid:8000", "[2001:db8::1]:1"]
)
def test_plain_text_off_loopback_is_refused(address: str) -> None:
    with pytest.raises(InputError) as raised:
        check(address, encrypted=False)
    assert str(raised.value) == (
        "`superlink` must be on this machine's loopback, or certificates be given for TLS; "
        f"found {address} in plain text"
    )
    assert check(address, encrypted=True)[1] in (8000, 1)
    for command in (
        lambda: launch.superlink(address),
        lambda: launch.supernode(address, 0, "x"),
        lambda: launch.submit("x", address, Path("x")),
    ):
        with pytest.raises(InputError, match="in plain text"):
            command()


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.9.9.9:1"]
)
def test_loopback_needs_no_certificates(address: str) -> None:
    assert check(address, encrypted=False)[0] in address


@pytest.mark.parametrize("address", ["", "127.0.0.1", "host:", ":80", "h:99999", "h:-1", "h:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InputError, match="`superlink` must be host:port; found"):
        check(address, encrypted=True)


def test_a_superlink_that_is_not_there(tmp_path: Path) -> None:
    address = f"127.0.0.1:{processes.free_port()}"
    message = f"`superlink` must be reachable; found no SuperLink at {address}: Connection refused"
    for attempt in (
        lambda: reach(address),
        lambda: launch.supernode(address, 0, tmp_path),
        lambda: launch.submit(tmp_path, address, tmp_path),
    ):
        with pytest.raises(InputError) as raised:
            attempt()
        assert str(raised.value) == message


@pytest.mark.slow
def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        address = f"127.0.0.1:{port}"
        for name, attempt in {
            "superlink": lambda: launch.superlink(address),
            "port": lambda: launch.supernode(address, 0, tmp_path, port=port),
        }.items():
            with pytest.raises(InputError) as raised:
                attempt()
            assert str(raised.value) == (
                f"`{name}` must be a free port of this machine; found {address}: "
                "Address already in use"
            )
        with pytest.raises(InputError, match="`client` must be a whole number of at least 0"):
            launch.supernode(address, -1, tmp_path)
    unused("superlink", "127.0.0.1", processes.free_port())


@pytest.mark.parametrize(
    "host",
    ["192.0.2.1", pytest.param("no.such.host.invalid", marks=pytest.mark.slow)],  # asks the network
)
def test_a_host_that_is_not_this_machine(host: str) -> None:
    """In the system's words, on one line."""
    with pytest.raises(InputError, match=rf"port of this machine; found {host}:1: [\w ]+\Z"):
        unused("superlink", host, 1)


def certificates(folder: Path) -> list[Path]:
    """Authority, server certificate and key for loopback, as docs/flower.md makes them."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder.mkdir()
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt",
        "req -newkey rsa:2048 -nodes -subj /CN=superlink -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names -out server.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return [folder / name for name in ("ca.crt", "server.pem", "server.key")]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[tuple[str, list[Path]]]:
    """Somebody who listens with a certificate of its own."""
    own = certificates(tmp_path / "own")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own[1], own[2])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(plain, server_side=True).close()
                except OSError:
                    plain.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", own
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5.0)


def test_a_certificate_that_the_authority_vouches_for(
    listener: tuple[str, list[Path]], tmp_path: Path
) -> None:
    address, own = listener
    reach(address, own[0])
    strangers = certificates(tmp_path / "strangers")
    with pytest.raises(InputError, match=r"must be one that .*strangers/ca.crt vouches for; found"):
        reach(address, strangers[0])
    with pytest.raises(InputError) as raised:
        reach(address)
    assert str(raised.value) == (
        f"`authority` must be given for a SuperLink that encrypts; found none for {address}"
    )


def test_plain_text_where_plain_text_is_spoken(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool, socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                with server.accept()[0] as line:
                    line.recv(1)
                    line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answered, address = pool.submit(answer), f"127.0.0.1:{server.getsockname()[1]}"
        reach(address)
        with pytest.raises(InputError, match=r"must be one that .* vouches for"):
            reach(address, certificates(tmp_path / "own")[0])
        assert answered.exception(10.0) is None


def test_an_app_is_the_setup_and_its_options(tmp_path: Path) -> None:
    setup = tmp_path / "mine.py"
    setup.write_text("def run(config):\n    return dict(config)\n")
    options = {"rounds": 3, "alpha": 0.5, "text": 'a "b"', "on": True, "folder": tmp_path}
    app = app_folder.write_app(tmp_path / "app", f"{setup}:run", options)
    assert (app / "mine.py").read_text() == setup.read_text()
    project = tomllib.loads((app / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == []
    config = project["tool"]["flwr"]["app"]["config"]
    assert config == {**app_folder.OPTIONS, **options, "setup": "mine:run", "folder": str(tmp_path)}
    with pytest.raises(InputError, match=r"setup. must be file.py:function; found no file none.py"):
        app_folder.write_app(tmp_path / "app", "none.py:run")
    with pytest.raises(InputError, match="option x must be a number or a text; found"):
        app_folder.write_app(tmp_path / "app", "a:b", {"x": [1]})


def test_an_app_beside_its_setup_and_none_in_another_project(tmp_path: Path) -> None:
    setup = tmp_path / "mine.py"
    setup.write_text("def run(config):\n    return dict(config)\n")
    for _ in range(2):
        app_folder.write_app(tmp_path, f"{setup}:run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "pyproject.toml"]
    for place in (tmp_path / "pyproject.toml", tmp_path / "mine.py"):
        place.write_text("[project]\n")
    with pytest.raises(InputError, match="`folder` must be new or an app of ours; found another"):
        app_folder.write_app(tmp_path, f"{setup}:run")
    assert (tmp_path / "pyproject.toml").read_text() == "[project]\n"
    with pytest.raises(InputError, match=r"`folder` must be writable; found .*: Not a directory"):
        app_folder.write_app(setup / "app", "a:b")


def test_setups_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "odd_setup.py").write_text("def run(config):\n    return 3\n")
    for name in ("no_such_module:run", "odd_setup:other", "odd_setup", ""):
        with pytest.raises(InputError, match="`setup` must be module:function; found"):
            load_setup(name, {})
    with pytest.raises(InputError, match=r"must make a Federation; found that .* makes a int"):
        load_setup("odd_setup:run", {})


def test_a_setup_that_is_no_file_and_an_app_that_is_none(tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    for name, message in {
        f"{missing}:run": f"found no file {missing}",
        str(missing): f"package.module:function; found '{missing}'",
        "a.b:": "package.module:function; found 'a.b:'",
    }.items():
        for use in (rehearse, lambda setup: app_folder.write_app(tmp_path / "app", setup)):
            with pytest.raises(InputError, match=r"`setup` must be file\.py:function") as raised:
                use(name)
            assert str(raised.value).endswith(message)
    assert not (tmp_path / "app").exists()
    with pytest.raises(InputError, match=r"`app` must be there; found no file .*pyproject\.toml"):
        launch.simulate(tmp_path / "app", 1, tmp_path)
    with pytest.raises(InputError, match="`clients` must be a whole number"):
        launch.simulate(tmp_path / "app", 0, tmp_path)


def test_an_option_that_the_setup_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "asking_setup.py").write_text("def run(config):\n    return config['model']\n")
    with pytest.raises(InputError, match="option model must be given, for the setup; found data"):
        load_setup("asking_setup:run", {"data": "x"})


def test_a_rehearsal_keeps_to_the_options_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "three_setup.py").write_text(
        "from tests.lora_bridge._federations import federation\n\n"
        "def run(config):\n    return federation('FSLoRA')\n"
    )
    rehearse("three_setup:run", tmp_path / "files", ["least=1"])
    for options, message in {
        "least=9": "`least` must be at most",
        "timeout=x": "`timeout` must be a number",
        "attempts=0": "`attempts` must be a whole number",
    }.items():
        with pytest.raises(InputError, match=message):
            rehearse("three_setup:run", tmp_path / "none", [options])


def test_certificates_that_are_not_there(listener: tuple[str, list[Path]], tmp_path: Path) -> None:
    address, own = listener
    missing = tmp_path / "missing.crt"
    for attempt in (
        lambda: reach(address, missing),
        lambda: launch.supernode(address, 0, tmp_path, missing),
        lambda: launch.submit(tmp_path, address, tmp_path, missing),
    ):
        with pytest.raises(InputError, match=r"`authority` must be there; found no file .*missing"):
            attempt()
    with pytest.raises(InputError, match=r"`certificates` must be there; found no file .*missing"):
        launch.superlink(address, [own[0], missing, own[2]])


def test_options_of_the_command() -> None:
    assert _options(["a=1", "b=1e-3", "c=x=y"]) == {"a": 1, "b": 1e-3, "c": "x=y"}
    with pytest.raises(InputError, match="`--set` must be NAME=VALUE; found 'a'"):
        _options(["a"])


def test_the_command_says_what_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        typed(["--help"])
    assert ended.value.code == 0
    assert "supernode" in capsys.readouterr().out


def test_flower_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *a, **k: None)
    with pytest.raises(InputError, match=r"Flower must be installed .*; found no flower-superlink"):
        launch.superlink("127.0.0.1:8000")


def test_commands_in_one_home_know_superlinks_of_their_own(tmp_path: Path) -> None:
    known = [("127.0.0.1:1", None), ("127.0.0.1:2", tmp_path / "ca.crt")]
    with ExitStack() as stack:
        for (address, authority), own in [
            (one, stack.enter_context(launch._flower_config(one[0], tmp_path / "home", one[1])))
            for one in known
        ]:
            connections = tomllib.loads((own / "config.toml").read_text())["superlink"]
            assert connections.pop("default") == "ratecheck"
            tls = {} if authority is None else {"root-certificates": str(authority)}
            assert connections["ratecheck"] == {"address": address, "insecure": not tls, **tls}
    assert list((tmp_path / "home").iterdir()) == []
