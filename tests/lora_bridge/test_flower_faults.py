"""Clients that die, come late or send nonsense, a server that starts anew: all on a fake wire.

Every test says which of three things happens: the same adapters as without the fault, adapters
without the client and its name in the result, or one line that says what is missing. In none of
them is what a client keeps lost.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from linsys import InputError
from linsys.folder_lock import folder_lock
from lora_bridge import checkpoint
from lora_bridge.flower import Federation, Result, Rules, TooFewClients, fingerprint, rehearse
from lora_bridge.flower._kept import Kept
from lora_bridge.flower.local import Local, Responder
from lora_bridge.flower.parcels import Lost, Parcel
from lora_bridge.flower.rounds import coordinate
from mgda.fedcmoo import FedCMOO
from tests.lora_bridge._federations import ALGORITHMS, N, federation, start

#: One of each kind: devices that keep nothing, users who keep coordinates with and without a
#: warm-up, clients that keep chains and moments, in one phase and in two.
KINDS = ["FSLoRA", "SI", "G", "FIRM, Adam", "FedCMOO"]
#: Those whose clients keep something.
KEEPING = KINDS[1:]
#: What a wire does with an answer: (phases so far, client, answer) to what arrives.
Wire = Callable[[int, int, bytes], Any]


class Faulty(Local):
    """Clients of this process on a wire that does what it is told; counts the phases."""

    def __init__(self, clients: Mapping[int, Responder], wire: Wire) -> None:
        super().__init__(clients)
        self.wire, self.phase = wire, 0

    def ask(self, requests: Mapping[int, bytes], timeout: float) -> Iterator[tuple[int, Any]]:
        phase, self.phase = self.phase, self.phase + 1
        for client, data in requests.items():
            if client in self.clients:
                reply = self.wire(phase, client, self.clients[client](data))
                if reply is not None:
                    yield client, reply


def clients_of(made: Federation, folder: Path) -> dict[int, Responder]:
    return {i: Responder(made, i, folder / f"client-{i}") for i in range(made.clients)}


@lru_cache
def whole(name: str, rounds: int = 3) -> Result:
    """What comes out where nothing goes wrong."""
    with tempfile.TemporaryDirectory() as folder:
        return rehearse(federation(name, rounds), folder)


def run(name: str, folder: Path, wire: Wire, rounds: int = 3, **rules: Any) -> Result:
    made = federation(name, rounds)
    transport = Faulty(clients_of(made, folder), wire)
    return coordinate(made, transport, folder / "server", Rules(**rules))


def untouched(phase: int, client: int, data: bytes) -> Any:
    return data


def at(when: int, who: int, what: Callable[[bytes], Any]) -> Wire:
    """A wire with one fault, in one phase, at one client."""
    return lambda phase, client, data: what(data) if (phase, client) == (when, who) else data


def changed(data: bytes, facts: Mapping[str, Any], change: Callable[[Any], Any]) -> bytes:
    """An answer with other facts and tensors, and a sound checksum."""
    parcel = Parcel.decode(data)
    tensors = {name: change(value) for name, value in parcel.tensors.items()}
    return Parcel({**parcel.facts, **facts}, tensors).encode()


def with_nan(value: Any) -> Any:
    kept = value.clone()
    kept.reshape(-1)[0] = float("nan")
    return kept


FAULTS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "dies in mid-round": (lambda data: None, "dropped out: no answer in 600 s"),
    "is cut off": (lambda data: Lost("the line is dead"), "dropped out: the line is dead"),
    "damaged": (lambda data: data[:-3] + b"???", "its answer was damaged: bytes whose checksum"),
    "cut short": (lambda data: data[:40], "its answer was damaged: bytes whose checksum"),
    "empty": (lambda data: b"", "its answer was damaged"),
    "no parcel": (
        lambda data: hashlib.sha256(b"x" * 50).digest() + b"x" * 50,
        "its answer was damaged: bytes that are no parcel",
    ),
    "wrong shape": (lambda data: changed(data, {}, lambda v: v[..., 1:]), "has shape"),
    "wrong dtype": (lambda data: changed(data, {}, lambda v: v.to(torch.float16)), "has dtype"),
    "NaN": (lambda data: changed(data, {}, with_nan), "is not finite"),
    "infinite": (lambda data: changed(data, {}, lambda v: v / 0.0), "is not finite"),
    "nothing in it": (lambda data: Parcel(Parcel.decode(data).facts).encode(), "rejected: its"),
    "of another round": (lambda data: changed(data, {"t": 0}, lambda v: v), "of another round: 0"),
    "of another run": (lambda data: changed(data, {"about": "x"}, lambda v: v), "another run: x"),
    "of another client": (
        lambda data: changed(data, {"client": 0}, lambda v: v),
        "of another client: 0 instead of 1",
    ),
}
#: Those that an algorithm's own server sees.
LOOKED_AT = ["dies in mid-round", "wrong shape", "wrong dtype", "NaN", "infinite", "nothing in it"]


def phases(name: str) -> int:
    return 2 if isinstance(ALGORITHMS[name], FedCMOO) else 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [("FSLoRA", fault) for fault in FAULTS]
    + [("FedCMOO", fault) for fault in FAULTS]
    + [(name, fault) for name in ("SI", "FIRM, Adam") for fault in LOOKED_AT],
)
def test_the_round_goes_on_without_the_client_and_names_it(
    name: str, fault: str, tmp_path: Path
) -> None:
    what, reason = FAULTS[fault]
    last = 2 * phases(name) - 1  # the last phase of round 1
    result = run(name, tmp_path, at(last, 1, what), least=2)
    [(round_, client, why)] = result.missing
    assert (round_, client) == (1, 1)
    assert reason in why
    assert result.rounds == whole(name).rounds
    assert result.sha256 != whole(name).sha256
    adapters = load_file(tmp_path / "server" / "adapters.safetensors")
    assert all(bool(value.isfinite().all()) for value in adapters.values())


@pytest.mark.parametrize(
    "change",
    [
        lambda name, value: value + 10**6 if name == "places" else value,
        lambda name, value: -1 - value if name == "places" else value,
        lambda name, value: value.long() if name == "places" else value,
        lambda name, value: value[1:] if name == "places" else value,
        lambda name, value: value[None],
    ],
    ids=["beyond", "negative", "long", "fewer", "not flat"],
)
def test_largest_entries_that_have_no_place(change: Any, tmp_path: Path) -> None:
    name = "FSLoRA, AdamW, top half"

    def what(data: bytes) -> bytes:
        parcel = Parcel.decode(data)
        changed = {n: change(n, value) for n, value in parcel.tensors.items()}
        return Parcel(parcel.facts, changed).encode()

    result = run(name, tmp_path, at(1, 1, what), least=2)
    [(round_, client, reason)] = result.missing
    assert (round_, client) == (1, 1)
    assert reason.startswith("rejected: its update has shape (0,) where")


@pytest.mark.slow
@pytest.mark.parametrize("round_", [0, 1, 2])
@pytest.mark.parametrize("fault", ["dies in mid-round", "damaged"])
@pytest.mark.parametrize("name", KINDS)
def test_a_second_attempt_gives_the_same_adapters(
    name: str, fault: str, round_: int, tmp_path: Path
) -> None:
    """The client answers what it answered before, though it has already moved on."""
    what, _ = FAULTS[fault]
    for phase in range(phases(name)):
        folder, when = tmp_path / str(phase), round_ * phases(name) + phase
        result = run(name, folder, at(when, 1, what), attempts=2)
        assert result.missing == ()
        assert (result.sha256, result.clients) == (whole(name).sha256, whole(name).clients)


def test_a_client_lost_in_the_first_phase_is_not_asked_in_the_second(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def wire(phase: int, client: int, data: bytes) -> Any:
        seen.append((phase, client))
        return None if (phase, client) == (2, 1) else data

    result = run("FedCMOO", tmp_path, wire, least=2)
    assert result.missing == ((1, 1, "dropped out: no answer in 600 s"),)
    assert (3, 1) not in seen
    assert (4, 1) in seen


@pytest.mark.slow
@pytest.mark.parametrize("round_", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_too_few_answers_are_one_line_and_the_run_goes_on_later(
    name: str, round_: int, tmp_path: Path
) -> None:
    when = (round_ + 1) * phases(name) - 1
    with pytest.raises(TooFewClients) as raised:
        run(name, tmp_path, at(when, 2, lambda data: None))
    assert str(raised.value) == (
        f"round {round_} must have answers of 3 clients; found 2 (client 2: no answer in 600 s); "
        f"{round_} rounds are kept in {tmp_path / 'server'}"
    )
    result = run(name, tmp_path, untouched)
    assert result.resumed == round_
    assert (result.sha256, result.clients) == (whole(name).sha256, whole(name).clients)


@pytest.mark.slow
@pytest.mark.parametrize("round_", [0, 1])
@pytest.mark.parametrize("when", ["before the answers", "between answers", "after the round"])
@pytest.mark.parametrize("name", KINDS)
def test_a_server_that_dies_starts_where_it_was(
    name: str, when: str, round_: int, tmp_path: Path
) -> None:
    """Clients that have answered answer the same again; those who come back know what they kept."""
    last = (round_ + 1) * phases(name) - 1

    class Killed(BaseException):
        pass

    def wire(phase: int, client: int, data: bytes) -> Any:
        moment = {"before the answers": (last, 0), "between answers": (last, 2)}
        if moment.get(when, (last + 1, 0)) == (phase, client):
            raise Killed
        return data

    with pytest.raises(Killed):
        run(name, tmp_path, wire)
    result = run(name, tmp_path, untouched)
    assert result.resumed == round_ + (when == "after the round")
    assert (result.sha256, result.clients) == (whole(name).sha256, whole(name).clients)


@pytest.mark.slow
@pytest.mark.parametrize("bit", [False, True], ids=["half of it", "one bit of a number"])
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_checkpoint_of_the_server_costs_a_round(
    name: str, bit: bool, tmp_path: Path
) -> None:
    """The client keeps the state before its last round as well, for this."""
    with pytest.raises(TooFewClients):
        run(name, tmp_path, at(2 * phases(name), 0, lambda data: None))
    newest = checkpoint.all_of(tmp_path / "server" / "rounds")[0]
    assert newest.name == "round-00000002"
    sound = (newest / "state.safetensors").read_bytes()
    damaged = sound[:-1] + bytes([sound[-1] ^ 1]) if bit else sound[: len(sound) // 2]
    (newest / "state.safetensors").write_bytes(damaged)
    result = run(name, tmp_path, untouched)
    assert result.resumed == 1
    assert (result.sha256, result.clients) == (whole(name).sha256, whole(name).clients)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_a_server_that_has_lost_its_files_begins_anew(
    name: str, rounds: int, tmp_path: Path
) -> None:
    """And so do clients, those that have moved on as well."""
    with pytest.raises(TooFewClients):
        run(name, tmp_path, at(rounds * phases(name), 0, lambda data: None), rounds=4)
    shutil.rmtree(tmp_path / "server")
    result = run(name, tmp_path, untouched, rounds=4)
    assert result.resumed == 0
    assert (result.sha256, result.clients) == (whole(name, 4).sha256, whole(name, 4).clients)


@pytest.mark.slow
@pytest.mark.parametrize("save", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_a_client_that_dies_anywhere_keeps_its_own(
    name: str, save: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it writes: the state before is there, and the round asks again."""
    made, folder, kept = federation(name), tmp_path / "client-1", checkpoint.save
    counts = {"saves": 0}

    def killed(place: Any, *rest: Any) -> Any:
        if Path(place).is_relative_to(folder):
            counts["saves"] += 1
            if counts["saves"] == save:
                unfinished = Path(place) / "making-half"
                unfinished.mkdir(parents=True)
                (unfinished / "state.safetensors").write_bytes(b"half")
                raise ConnectionError("killed")
        return kept(place, *rest)

    class Dying(Responder):
        def __call__(self, data: bytes) -> bytes:
            try:
                return super().__call__(data)
            except ConnectionError:
                self._client = None  # a new process
                return b""

    monkeypatch.setattr(checkpoint, "save", killed)
    clients = clients_of(made, tmp_path) | {1: Dying(made, 1, folder)}
    result = coordinate(made, Local(clients), tmp_path / "server", Rules(attempts=2))
    monkeypatch.undo()
    assert counts["saves"] > save or name == "FSLoRA"
    assert (result.sha256, result.clients) == (whole(name).sha256, whole(name).clients)


@pytest.mark.parametrize("name", ["SI", "G", "LoRA-local"])
def test_users_that_are_away_keep_what_is_personal(name: str, tmp_path: Path) -> None:
    """Away for a step: coordinates of its own stay as they were, shared ones are the server's."""
    made = federation(name)
    clients = clients_of(made, tmp_path)
    steps = made.algorithm.total(made.oracle(0))  # client 0 has the most samples
    away = [steps - 2]
    before: dict[str, Any] = {}

    class Away(Responder):
        def __call__(self, data: bytes) -> bytes:
            request = Parcel.decode(data)
            if request.number("t") in away and "phase" not in request.facts:
                place = checkpoint.latest(self.folder / "state")
                before.setdefault("X", load_file(place / "state.safetensors")[".X"])  # type: ignore[operator]
                return b""
            return super().__call__(data)

    clients[1] = Away(made, 1, tmp_path / "client-1")
    result = coordinate(made, Local(clients), tmp_path / "server", Rules(least=2))
    assert [(t, i) for t, i, _ in result.missing] == [(t, 1) for t in away]
    mask = torch.from_numpy(made.algorithm.mask(made.modules))
    ends = [load_file(tmp_path / f"client-{i}" / "adapters.safetensors")["X"] for i in range(N)]
    assert torch.equal(ends[0][:, mask], ends[1][:, mask])
    assert result.clients[1] == fingerprint([ends[1]])
    # its personal part took one more step, of at most gamma in every coordinate (AdamW's length)
    moved = (ends[1] - before["X"][0])[:, ~mask].abs().max()
    first = (ends[1] - start(made.algorithm)[1])[:, ~mask].abs().max()
    assert 0 < moved < first


def test_a_user_that_misses_the_end_of_the_warm_up_takes_over_later(tmp_path: Path) -> None:
    """G shares all for two thirds: what becomes personal waits at the server for those away."""
    made, clients = federation("G"), {}
    steps = 4  # of six, rounds 4 and 5 are personal; the user misses the first of them

    class Away(Responder):
        def __call__(self, data: bytes) -> bytes:
            away = Parcel.decode(data).number("t") == steps
            return b"" if away else super().__call__(data)

    clients = clients_of(made, tmp_path) | {2: Away(made, 2, tmp_path / "client-2")}
    result = coordinate(made, Local(clients), tmp_path / "server", Rules(least=2))
    assert [(t, i) for t, i, _ in result.missing] == [(4, 2)]

    class Missing:
        """The same in one piece: a user without a gradient in that step."""

        def __init__(self, oracle: Any) -> None:
            self.oracle = oracle
            self.modules, self.users, self.steps = oracle.modules, oracle.users, oracle.steps

        def grad(self, user: int, X: Any, epoch: int, step: int) -> Any:
            gradient = self.oracle.grad(user, X, epoch, step)
            lost = user == 2 and epoch * self.steps + step == steps
            return gradient * float("nan") if lost else gradient

    from lora_bridge.oracles import Users
    from tests.lora_bridge._federations import task

    users = Missing(Users(task(True)))
    state, rejected = made.algorithm.run(made.algorithm.init(made.start, users), users)
    assert rejected == {2: 1}
    assert list(result.clients.values()) == [fingerprint([X]) for X in state.X]


def test_a_late_answer_is_not_taken_for_one_of_the_next_round(tmp_path: Path) -> None:
    late: list[bytes] = []

    def wire(phase: int, client: int, data: bytes) -> Any:
        if client == 1 and phase == 0:
            late.append(data)
            return None
        return late[0] if client == 1 and phase == 1 else data

    result = run("FSLoRA", tmp_path, wire, least=2)
    assert result.missing == (
        (0, 1, "dropped out: no answer in 600 s"),
        (1, 1, "dropped out: its answer is of another round: 0 instead of 1"),
    )


def test_a_client_whose_own_numbers_break_says_so(tmp_path: Path) -> None:
    class Broken:
        def __init__(self, oracle: Any) -> None:
            self.oracle = oracle

        def __getattr__(self, name: str) -> Any:
            return getattr(self.oracle, name)

        def grad(self, *arguments: Any) -> Any:
            return self.oracle.grad(*arguments) * float("nan")

        def jac(self, *arguments: Any) -> Any:
            jacobian, *rest = self.oracle.jac(*arguments)
            return (jacobian * float("nan"), *rest)

    reasons = {}
    for name in ("FSLoRA", "SI", "FIRM"):
        made = federation(name, fault=lambda i, oracle: Broken(oracle) if i == 1 else oracle)
        result = rehearse(made, tmp_path / name, Rules(least=2))
        assert {client for _, client, _ in result.missing} == {1}
        reasons[name] = result.missing[0][2]
    assert reasons == {
        "FSLoRA": "dropped out: client 1 must have a finite loss; found nan in round 0, step 1: "
        "lower the step size, or leave such clients out by on_nan=skip",
        "SI": "dropped out: its gradient is not finite",
        "FIRM": "dropped out: `gradients` must be finite; found NaN or infinity at client 1, "
        "step 0",
    }


def test_fewer_clients_than_needed_at_the_start(tmp_path: Path) -> None:
    made = federation("FSLoRA")
    clients = clients_of(made, tmp_path)
    del clients[0]
    with pytest.raises(TooFewClients, match=r"connected after 120 s; found 2: 1, 2$"):
        coordinate(made, Local(clients), tmp_path / "server")
    other = Responder(federation("FlexLoRA"), 0, tmp_path / "client-0")
    with pytest.raises(TooFewClients, match="found 2: 1, 2; client 0: it is of another run"):
        coordinate(made, Local(clients | {0: other}), tmp_path / "server")
    assert coordinate(made, Local(clients), tmp_path / "server", Rules(least=2)).rounds == 3
    with pytest.raises(InputError, match="`least` must be at most 3, the clients; found 4"):
        coordinate(made, Local(clients), tmp_path / "server", Rules(least=4))


def test_an_epoch_needs_all_users_or_its_length(tmp_path: Path) -> None:
    made = federation("SI")
    clients = clients_of(made, tmp_path)
    del clients[2]
    with pytest.raises(InputError, match=r"`steps` of an epoch must be given.* found no client 2"):
        coordinate(made, Local(clients), tmp_path / "server", Rules(least=2))


def test_a_folder_of_another_run_is_not_continued(tmp_path: Path) -> None:
    run("FSLoRA", tmp_path, untouched)
    with pytest.raises(InputError, match="must be new or hold this run; found rounds of another"):
        run("FlexLoRA", tmp_path, untouched)


def test_a_disk_that_is_full_is_one_line_and_the_rounds_before_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: Path) -> None:
        if "round-00000001" in {place.name for place in path.parents[1].iterdir()}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full)
        with pytest.raises(InputError, match=r"must be writable; found .*rounds: No space left"):
            run("FSLoRA", tmp_path, untouched)
    result = run("FSLoRA", tmp_path, untouched)
    assert (result.resumed, result.sha256) == (1, whole("FSLoRA").sha256)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"folder of the run must be writable; .* Not a directory"):
        rehearse(federation("FSLoRA"), tmp_path / "file")


def test_more_rounds_go_on_from_the_last(tmp_path: Path) -> None:
    first, longer = run("FIRM", tmp_path, untouched, 2), run("FIRM", tmp_path, untouched, 4)
    assert (first.rounds, longer.resumed, longer.rounds) == (2, 2, 4)
    assert longer.sha256 == whole("FIRM", 4).sha256 != first.sha256


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_client_that_comes_late_answers_its_first_round_again(name: str, tmp_path: Path) -> None:
    class Late(Responder):
        """Not there before round 1."""

        def __call__(self, data: bytes) -> bytes:
            there = "t" not in (facts := Parcel.decode(data).facts) or facts["t"]
            return super().__call__(data) if there else b""

    made, results = federation(name), []
    for case, fault in (("once", untouched), ("twice", at(2 * phases(name), 1, lambda data: None))):
        folder = tmp_path / case
        clients = clients_of(made, folder) | {1: Late(made, 1, folder / "client-1")}
        transport = Faulty(clients, fault)
        rules = Rules(least=2, attempts=2)
        results.append(coordinate(made, transport, folder / "server", rules))
    once, twice = results
    assert [(round_, client) for round_, client, _ in once.missing] == [(0, 1)]
    assert (once.sha256, once.clients, once.missing) == (twice.sha256, twice.clients, twice.missing)


def test_states_of_rounds_that_the_server_has_lost_are_forgotten(tmp_path: Path) -> None:
    """Else a client that then misses a round would go on with one of them."""
    kept = Kept(tmp_path, "x")
    for t in (1, 2, 3):
        kept.put(t, {"x": torch.full((2,), float(t))})
    kept.put(2, {"x": torch.full((2,), 20.0)})
    state = kept.before(3, {"x": torch.zeros(2)})
    assert state is not None
    assert (state[0], state[1]["x"].tolist()) == (2, [20.0, 20.0])


def test_only_rounds_before_the_first_have_no_state(tmp_path: Path) -> None:
    kept, like = Kept(tmp_path, "x"), {"x": torch.zeros(2)}

    def put(*rounds: int) -> None:
        for t in rounds:
            kept.put(t, {"x": torch.full((2,), float(t))})

    assert kept.before(3, like) is None
    put(4, 5, 6, 7, 8)  # of which three stay
    assert kept.before(3, like) is None
    for t in (4, 5):
        with pytest.raises(
            InputError,
            match="the server must ask for round 6 or a later one, for the state before is no "
            f"longer kept; found round {t}",
        ):
            kept.before(t, like)
    with pytest.raises(checkpoint.OfAnotherRun, match="must be of y; found one of x"):
        Kept(tmp_path, "y").before(0, like)
    put(6)
    with pytest.raises(InputError, match="no longer kept; found round 5"):
        kept.before(5, like)
    put(1, 2)  # the server has begun anew
    assert kept.before(0, like) is None
    for t, previous in ((1, 1), (2, 2), (3, 2)):
        state = kept.before(t, like)
        assert state is not None
        assert (state[0], state[1]["x"].tolist()) == (previous, [previous, previous])


class Nobody:
    """A transport that must not be used."""

    def meet(self, hello: Parcel, wanted: int, timeout: float) -> Any:
        raise AssertionError

    def ask(self, requests: Any, timeout: float) -> Any:
        raise AssertionError


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_has_come_to_its_end_asks_nobody(name: str, tmp_path: Path) -> None:
    made = federation(name)
    first = rehearse(made, tmp_path)
    assert coordinate(made, Nobody(), tmp_path / "server") == first
    (tmp_path / "server" / "result.json").write_text('{"sha256": "0')  # a kill while it was written
    with pytest.raises(AssertionError):
        coordinate(made, Nobody(), tmp_path / "server")
    again = rehearse(made, tmp_path)
    assert (again.sha256, again.clients) == (first.sha256, first.clients)
    (tmp_path / "server" / "adapters.safetensors").unlink()
    assert rehearse(made, tmp_path).sha256 == first.sha256
    assert (tmp_path / "server" / "adapters.safetensors").is_file()


def test_who_was_missing_is_known_after_a_restart(tmp_path: Path) -> None:
    made = federation("FSLoRA")
    clients = clients_of(made, tmp_path)
    away = Local({i: client for i, client in clients.items() if i != 1})
    one = federation("FSLoRA", rounds=1)
    assert coordinate(one, away, tmp_path / "server", Rules(least=2)).missing[0][:2] == (0, 1)
    result = rehearse(made, tmp_path)
    assert [(t, client) for t, client, _ in result.missing] == [(0, 1)]
    assert result.resumed == 1


def test_a_user_that_misses_the_end_is_named_and_has_its_adapters_later(tmp_path: Path) -> None:
    made = federation("G")
    clients = clients_of(made, tmp_path)
    whole = rehearse(made, tmp_path / "whole")

    class AwayAtTheEnd(Local):
        def ask(self, requests: Any, timeout: float) -> Any:
            ending = Parcel.decode(requests[0]).text("phase") == "finish"
            there = {i: data for i, data in requests.items() if not (ending and i == 1)}
            return super().ask(there, timeout)

    first = coordinate(made, AwayAtTheEnd(clients), tmp_path / "server", Rules(least=2))
    assert first.missing == ((first.rounds, 1, "dropped out: no answer in 600 s"),)
    assert sorted(first.clients) == [0, 2]
    second = coordinate(made, Local(clients), tmp_path / "server")
    assert (second.sha256, second.clients) == (whole.sha256, whole.clients)


@pytest.mark.parametrize("name", ["SI", "LoRA-global"])
def test_a_user_that_comes_for_the_end_alone_has_its_adapters(name: str, tmp_path: Path) -> None:
    made = federation(name)
    made = replace(made, steps=made.oracle(0).steps)  # which nobody has to say
    clients = clients_of(made, tmp_path)
    others = {i: client for i, client in clients.items() if i != 1}
    first = coordinate(made, Local(others), tmp_path / "server", Rules(least=2))
    second = coordinate(made, Local(clients), tmp_path / "server")
    assert sorted(second.clients) == [0, 1, 2]
    assert {i: second.clients[i] for i in (0, 2)} == first.clients
    ends = [load_file(tmp_path / f"client-{i}" / "adapters.safetensors")["X"] for i in (0, 1)]
    mask = torch.from_numpy(made.algorithm.mask(made.modules))
    assert torch.equal(ends[1][:, mask], ends[0][:, mask])
    assert torch.equal(ends[1][:, ~mask], start(made.algorithm)[1][:, ~mask])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "left"), [(name, 1) for name in KEEPING] + [("SI", 0), ("G", 0)])
def test_a_client_whose_files_are_gone_does_not_begin_anew_in_the_middle(
    name: str, left: int, tmp_path: Path
) -> None:
    made = federation(name)
    steps = made.rounds * phases(name)
    if hasattr(made.algorithm, "total"):
        steps = made.algorithm.total(made.oracle(0))  # client 0 has the most samples

    def stop(phase: int, client: int, data: bytes) -> Any:
        return None if phase == steps - left else data

    with pytest.raises(TooFewClients):
        run(name, tmp_path, stop)
    shutil.move(tmp_path / "client-1", tmp_path / "away")
    with pytest.raises(TooFewClients, match=r"client 1: .* hold what it has kept, .* nothing in"):
        run(name, tmp_path, untouched)
    shutil.rmtree(tmp_path / "client-1", ignore_errors=True)
    shutil.move(tmp_path / "away", tmp_path / "client-1")
    outcome = run(name, tmp_path, untouched)
    assert (outcome.sha256, outcome.clients) == (whole(name).sha256, whole(name).clients)


def test_two_runs_in_one_folder_take_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, whole = federation("FSLoRA"), rehearse(federation("FSLoRA"), tmp_path / "whole")
    (tmp_path / "server").mkdir()
    with ThreadPoolExecutor() as pool:
        with folder_lock(tmp_path / "server", lambda: None) as alone:
            assert alone
            other = pool.submit(rehearse, made, tmp_path)
            with pytest.raises(TimeoutError):
                other.result(1.0)
            assert "another run is in" in caplog.text
            assert not (tmp_path / "server" / "rounds").exists()
        assert other.result(60.0).sha256 == whole.sha256
