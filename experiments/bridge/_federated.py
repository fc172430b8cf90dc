"""What the experiments of FSLoRA and P-ShareLoRA on language models share: a model, words, devices.

*Model.* A folder of the user's, or the built-in byte-level model in a small size. It is frozen;
adapters are those of :mod:`lora_bridge.bank`. The output matrix is adapted too.

*Words.* Without a file, questions are about strings of letters and have four domains, such as
"kamelo last?" (does it end with a vowel?), answered yes or no, half of them yes. Each word is drawn
anew, so that a test's questions are new but for chance. With a file: instruction data with choices;
with a folder: all its files, where those of one domain, such as arc_train.json and arc_test.json,
are one pool, from which every draw takes its own tests.

*Devices.* Questions are dealt out by Dirichlet shares of every domain; a file of one domain is
dealt out by its answers. Local steps are AdamW's, its moments zero in every round.

*Step sizes.* Every arm of a comparison has its own: the best of a few in test loss on draws that
are used for nothing else (of a user's file: other splits of it).

*Seeds.* One of ``seeds`` is one draw of samples, devices, sketches and first modules; the model is
the same. Differences are formed within a seed, 95 % intervals (Student) are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from experiments import _rates
from experiments._intervals import mean_interval
from experiments._model import Check, Columns, Config, Context
from experiments._table import Table, long_table
from linsys import InputError
from linsys._validate import number, whole

if TYPE_CHECKING:
    from linsys.sketching._federated import Federated, State
    from lora_bridge.bank import AdapterBank
    from lora_bridge.data import Example
    from lora_bridge.models import Loaded
    from lora_bridge.oracles import Devices

Values = NDArray[np.float64]
#: An algorithm of a step size and a seed.
Method = Callable[[float, int], "Federated"]

LETTERS, VOWELS = "aeioubdgklmnprst", "aeiou"
#: What a word can be asked for; the keys end the questions.
PROPERTIES: Mapping[str, Callable[[str], bool]] = {
    "long": lambda word: len(word) > 5,
    "first": lambda word: word[0] in VOWELS,
    "last": lambda word: word[-1] in VOWELS,
    "has k": lambda word: "k" in word,
}
#: The paper's sizes (Section 5 and Appendix B) for a real model on a GPU.
PAPER: Mapping[str, Any] = {
    "targets": ("q_proj", "k_proj", "v_proj", "up_proj", "down_proj"),
    "rank": 64,
    "devices": 20,
    "samples": 400,
    "tests": 300,
    "batch": 16,
    "local_steps": 20,
    "dropout": 0.1,
    "gammas": (1e-4, 3e-4, 1e-3),
    "seeds": 5,
    "chunk": 4,
    "dtype": "bfloat16",
    "device": "cuda",
}
#: What is summed over the rounds of a run: see :func:`path`.
SUMS = ("up", "down", "missing", "moved")
#: Of a check that is what a paper says, beside those that are derived.
CLAIMED = "above 0, as the paper has it"
#: Samples that are judged at a time.
_AT_ONCE = 128


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    """The model, its adapters and how they are trained.

    Attributes:
        model: folder of a model; None: the built-in one, which learns from the prompts of data.
        data: a file of the user's, for questions also a folder of files; None: generated words.
        hidden: width of the built-in model.
        targets: names of the adapted modules.
        rank: r of the global modules.
        scaling: factor of B A.
        dropout: of the adapters' inputs in training.
        gammas: step sizes to choose from.
        tuning: draws for that choice.
        seeds: draws for the comparison.
        batch: samples of a step.
        tests: held-out samples of every domain or user.
        max_length: tokens of a sample; the beginning of a longer prompt is cut.
        chunk: clients that go through the model together; None for all.
        on_nan: what to do with a client whose loss or gradient is not finite: "skip" it, so that a
            step size may be tried that is too large, or "stop".
        dtype: of the model; adapters are float32, or float64 with it.
        device: "cpu" or "cuda".
    """

    how: ClassVar[frozenset[str]] = frozenset({"chunk"})
    #: How the model attends; "eager" where second derivatives are wanted.
    attention: ClassVar[str] = "sdpa"

    model: Path | None = None
    data: Path | None = None
    hidden: int = 32
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
    rank: int = 16
    scaling: float = 1.0
    dropout: float = 0.0
    gammas: tuple[float, ...] = (0.004, 0.01)
    tuning: int = 1
    seeds: int = 3
    batch: int = 4
    tests: int = 40
    max_length: int = 512
    chunk: int | None = None
    on_nan: Literal["skip", "stop"] = "skip"
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "rank", "tuning", "batch", "tests"):
            whole(name, getattr(self, name), low=1)
        whole("seeds", self.seeds, low=2)
        for gamma in self.gammas:
            number("gammas", gamma, low=0.0, low_open=True)
        if not self.gammas:
            raise InputError("`gammas` must hold at least one step size; found none")

    def load(self, task: str) -> Loaded:
        """The model for a task, read once."""
        seed = self.derive("head") % 2**32
        made = self.model, self.data, self.hidden
        return _load(*made, task, self.dtype, self.device, self.attention, seed)

    def bank(self, loaded: Loaded, targets: Sequence[str]) -> AdapterBank:
        """Adapters on that model."""
        from lora_bridge.bank import AdapterBank

        return AdapterBank(
            loaded.model, targets, self.scaling, chunk=self.chunk, dropout=self.dropout
        )

    def tensor(self, X: Any) -> Any:
        """An array as adapters of the model."""
        import torch

        dtype = torch.float64 if self.dtype == "float64" else torch.float32
        return torch.as_tensor(X, dtype=dtype, device=self.device)

    def best(self, score: Callable[[float, int], float]) -> float:
        """The step size with the least mean score (step size, draw); the first one of equals."""
        if len(self.gammas) == 1:
            return self.gammas[0]
        means = [np.mean([score(g, k) for k in range(self.tuning)]) for g in self.gammas]
        if not np.isfinite(means).any():
            raise InputError(
                f"`gammas` must hold one that trains; found that {self.gammas} diverge"
            )
        return self.gammas[int(np.nanargmin(means))]


@lru_cache(maxsize=1)
def _load(
    model: Path | None,
    data: Path | None,
    hidden: int,
    task: str,
    dtype: str,
    device: str,
    attention: str,
    seed: int,
) -> Loaded:
    import torch

    from lora_bridge.models import BuiltIn, built_in, load_model
    from lora_bridge.prompts import prompt_texts

    folder = model or built_in(prompt_texts(data), BuiltIn(hidden=hidden))
    kind = getattr(torch, dtype)
    return load_model(folder, task, dtype=kind, device=device, attention=attention, seed=seed)


@contextmanager
def threads(context: Context) -> Iterator[None]:
    """PyTorch with the threads of a context; where memory ends it says what to lower."""
    import torch

    from lora_bridge._failures import memory_explained

    before = torch.get_num_threads()
    torch.set_num_threads(context.threads)
    try:
        with memory_explained():
            yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class DeviceConfig(ModelConfig):
    """Devices with questions.

    Attributes:
        devices: N.
        samples: mean number of questions of a device; fewer where a file has no more.
        concentration: of the Dirichlet shares; small for devices of one domain each.
        ratios: k_i / r, dealt out to the devices in turn.
        local_steps: H.
    """

    targets: tuple[str, ...] = (
        *("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
        "lm_head",
    )
    devices: int = 8
    samples: int = 128
    concentration: float = 0.5
    ratios: tuple[float, ...] = (0.125, 0.25, 0.5, 0.75)
    local_steps: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("devices", "samples", "local_steps"):
            whole(name, getattr(self, name), low=1)
        number("concentration", self.concentration, low=0.0, low_open=True)
        self.ranks()

    def ranks(self) -> list[int]:
        """k_i of every device."""
        if not self.ratios:
            raise InputError("`ratios` must hold at least one ratio; found none")
        found = [self.rank_of(ratio) for ratio in self.ratios]
        return [found[i % len(found)] for i in range(self.devices)]

    def rank_of(self, ratio: float) -> int:
        """k of a ratio k / r.

        Raises:
            InputError: for a ratio that gives no whole rank.
        """
        k = round(number("ratios", ratio, low=0.0, high=1.0, low_open=True) * self.rank)
        if k < 1 or abs(k - ratio * self.rank) > 1e-9:
            raise InputError(
                f"`ratios` times rank = {self.rank} must be whole ranks; found {ratio:g}"
            )
        return k

    def draw(self, use: str, k: int) -> Draw:
        """Draw number k for "test" or "tuning"; the same object again if asked."""
        return _drawn(self, use, k)


@dataclass(frozen=True, eq=False)
class Draw:
    """Devices with their samples, and the tests of every domain.

    Attributes:
        oracle: the devices.
        tests: domain to what :func:`lora_bridge.tokens.encode_choices` makes of its questions with
            two choices, with three, and so on.
        name: of model and data.
    """

    oracle: Devices
    tests: Mapping[str, Sequence[Mapping[str, Any]]]
    name: str

    def judge(self, state: State) -> Values:
        """Cross-entropy of the answer and accuracy among the choices, (domains, 2)."""
        bank = state.oracle.task.bank  # with what has been merged into it
        return np.array([_mean(bank, state.X, test) for test in self.tests.values()])


def word(rng: np.random.Generator) -> str:
    """Three to eight letters."""
    return "".join(rng.choice(list(LETTERS), rng.integers(3, 9)))


def questions(domain: str, count: int, rng: np.random.Generator) -> list[Example]:
    """Questions about words, every second one to be answered by yes."""
    from lora_bridge.data import Example

    asked, found = PROPERTIES[domain], []
    for i in range(count):
        while asked(drawn := word(rng)) != (i % 2 == 1):
            pass
        answer = "yes" if i % 2 else "no"
        found.append(Example(f"{drawn} {domain}? ", answer, ("yes", "no"), domain))
    return found


@lru_cache(maxsize=8)
def _drawn(config: DeviceConfig, use: str, k: int) -> Draw:
    from lora_bridge.losses import answer_loss
    from lora_bridge.oracles import Devices
    from lora_bridge.splits import by_key, dirichlet
    from lora_bridge.tasks import Task
    from lora_bridge.tokens import encode_choices, encode_examples

    seed = config.derive("draw", use, k)
    train, tests = _examples(config, seed)
    shares = dirichlet(train, config.devices, _domain(train), config.concentration, seed)
    loaded = config.load("lm")
    length, tokenizer = config.max_length, loaded.tokenizer
    dealt = encode_examples(tokenizer, [e for share in shares for e in share], length, "cut")
    ends = np.cumsum([0, *map(len, shares)])
    shards = [
        {name: value[start:end] for name, value in dealt.items()} for start, end in pairwise(ends)
    ]
    bank = config.bank(loaded, config.targets)
    task = Task(bank, shards, answer_loss, config.batch, seed, config.on_nan)
    encoded = {
        domain: [
            encode_choices(tokenizer, group, length, "cut")
            for group in by_key(test, lambda e: str(len(e.choices))).values()
        ]
        for domain, test in tests.items()
    }
    data = "generated questions" if config.data is None else config.data.name
    return Draw(Devices(task), encoded, f"model {loaded.name}, data: {data}")


def _examples(config: DeviceConfig, seed: int) -> tuple[list[Example], dict[str, list[Example]]]:
    """What the devices have together, and the tests of every domain."""
    from lora_bridge.data import read_examples
    from lora_bridge.splits import by_key

    rng, wanted = np.random.default_rng(seed), config.devices * config.samples
    if config.data is None:
        share = -(-wanted // len(PROPERTIES))
        train = [e for domain in PROPERTIES for e in questions(domain, share, rng)]
        return train, {domain: questions(domain, config.tests, rng) for domain in PROPERTIES}
    files = sorted(config.data.glob("*.json*")) if config.data.is_dir() else [config.data]
    if not files:
        raise InputError(f"`data` must hold files *.json or *.jsonl; found none in {config.data}")
    items = [e for file in files for e in read_examples(file)]
    if any(len(e.choices) < 2 for e in items):
        raise InputError(
            f"`data` must have choices in all questions ('Answer format: a/b'); "
            f"found one without in {config.data}"
        )
    train, tests = [], {}
    for domain, group in by_key(items, lambda e: e.domain).items():
        if len(group) <= config.tests:
            raise InputError(
                f"`data` must have more than tests = {config.tests} questions of {domain}; "
                f"found {len(group)}"
            )
        order = [group[j] for j in rng.permutation(len(group))]
        tests[domain], rest = order[: config.tests], order[config.tests :]
        train += rest[: -(-wanted * len(group) // len(items))]
    if len(train) < config.devices:
        raise InputError(
            f"`data` must have a question for each of devices = {config.devices} beside the tests; "
            f"found {len(train)}"
        )
    return train, tests


def _domain(items: Sequence[Example]) -> Callable[[Example], str]:
    """What is dealt out by Dirichlet shares: domains, or answers where there is one domain."""
    several = len({e.domain for e in items}) > 1
    return (lambda e: e.domain) if several else (lambda e: e.target)


def _judged(output: Any, batch: Mapping[str, Any]) -> Any:
    """-log-likelihood of the right choice and whether it is the likeliest, per token."""
    import torch

    from lora_bridge.losses import log_likelihood

    answer = batch["answer"]
    choices = log_likelihood(output, batch, normalized=True).reshape(len(answer), -1)
    right = choices.gather(1, answer[:, None])[:, 0]
    return torch.stack([-right, (choices.argmax(1) == answer).to(right.dtype)], dim=1)


def _mean(bank: AdapterBank, X: Any, test: Sequence[Mapping[str, Any]]) -> Values:
    total, size = np.zeros(2), 0
    for group in test:
        for start in range(0, len(group["answer"]), _AT_ONCE):
            part = {n: v[None, start : start + _AT_ONCE].to(bank.device) for n, v in group.items()}
            values = bank.losses(X[None], part, _judged)[0]
            total += values.double().cpu().numpy() * part["answer"].shape[1]
            size += part["answer"].shape[1]
    return total / size


def path(
    config: DeviceConfig,
    context: Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, Any]],
) -> dict[str, Values]:
    """One draw trained to the last of the increasing rounds ``times``, measured at each of them.

    Returns:
        What ``measure`` says of the states, (times, ..); besides, summed up to there, (times,):
        ``up`` and ``down``, mean bytes of a device, ``missing``, how often a device was left out,
        and ``moved``, how far the modules went in a round, the mean of |X^{t+1} - X^t| over their
        entries.
    """
    from lora_bridge.runs import recorded

    drawn, seed = config.draw(use, k), config.derive("run", use, k)
    start = drawn.oracle.modules.start(r, np.random.default_rng(seed))
    algorithm = method(gamma, seed)

    def advance(now: tuple[State, list[float]], t: int) -> tuple[State, list[float]]:
        state, sums = now
        after, report = algorithm.round(state)
        sent = [float(np.mean(report.up)), float(np.mean(report.down))]
        new = [*sent, float(len(report.missing)), float((after.X - state.X).abs().mean())]
        return after, [one + other for one, other in zip(sums, new, strict=True)]

    def seen(now: tuple[State, list[float]]) -> dict[str, Any]:
        return {**measure(now[0]), **dict(zip(SUMS, now[1], strict=True))}

    first = algorithm.init(config.tensor(start), drawn.oracle), [0.0] * len(SUMS)
    name = f"{algorithm} r={r} {use} {k}"
    return recorded(name, advance, first, times, seen, folder=context.folder)


def train(
    config: DeviceConfig,
    context: Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
) -> dict[str, Values]:
    """A :func:`path` with ``loss`` and ``accuracy`` on the tests, (times, domains)."""
    drawn = config.draw(use, k)

    def measure(state: State) -> dict[str, Values]:
        return dict(zip(("loss", "accuracy"), drawn.judge(state).T, strict=True))

    return path(config, context, method, r, gamma, use, k, times, measure)


def compare(
    config: DeviceConfig,
    context: Context,
    method: Method,
    r: int,
    times: Sequence[int],
    at: Sequence[int],
) -> Columns:
    """A method at its best step size on all seeds; column t holds ``at`` for the rounds."""

    def score(gamma: float, k: int) -> float:
        found = train(config, context, method, r, gamma, "tuning", k, times[-1:])
        return float(found["loss"].mean())

    gamma = config.best(score)
    runs = [train(config, context, method, r, gamma, "test", k, times) for k in range(config.seeds)]
    first = config.draw("test", 0)
    axes: dict[str, Any] = {
        "draw": np.arange(config.seeds),
        "t": list(at),
        "domain": list(first.tests),
    }
    values = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    shaped = {name: v if v.ndim == 3 else v[..., None] for name, v in values.items()}
    return long_table(axes, **shaped, gamma=gamma, what=first.name)


def over_domains(table: Table, value: str = "accuracy", **where: Any) -> Values:
    """A value averaged over domains, (seeds, times)."""
    return np.asarray(table.where(**where).grid(value, "draw", "t", "domain").mean(axis=-1))


def gap(name: str, predicted: str, ours: Values, theirs: Values) -> Check:
    """The claim that a number of every seed, (seeds,), is above another one on average."""
    return _rates.above(name, predicted, mean_interval(ours - theirs))


def claim(what: str, ours: Values, theirs: Values) -> Check:
    """What the paper says: that a number of every seed is above another one."""
    return gap(what, CLAIMED, ours, theirs)


def reach(H: int) -> float:
    """How far H steps of AdamW from zero moments can move an entry at most, in step sizes.

    In step h the mean of gradients has weights a_j and that of squares b_j, j <= h. By Cauchy and
    Schwarz their quotient is at most the root of the sum of a_j^2 / b_j, whatever the gradients;
    it is 1 where h = 1.

    >>> round(reach(1), 6), round(reach(5), 3)
    (1.0, 5.022)
    """
    total = 0.0
    for h in range(1, H + 1):
        past = np.arange(h)
        a = 0.1 * 0.9**past / (1 - 0.9**h)
        b = 0.001 * 0.999**past / (1 - 0.999**h)
        total += float(np.sqrt((a**2 / b).sum()))
    return total


def limits(config: DeviceConfig, table: Table, rounds: int, share: float) -> Values:
    """How far modules went over how far they can, of every seed, (seeds,): at most 1.

    A device moves the entries of its k_i components by at most gamma times :func:`reach`, and the
    server adds the N-th part: on average over all entries that is the mean k_i / r of it, which is
    ``share``. The table is that of one arm.
    """
    moved = table.where(t=table["t"].max()).grid("moved", "draw", "domain")[:, 0]
    return np.asarray(moved / (rounds * share * table["gamma"][0] * reach(config.local_steps)))


def said(config: ModelConfig, table: Table, *names: str) -> list[str]:
    """Model, data, seeds, the step size of every arm, named by columns, and who was left out."""
    arms = dict.fromkeys(zip(*(table[name] for name in names), table["gamma"], strict=True))
    text = ", ".join(f"{' '.join(map(str, arm[:-1]))}: {arm[-1]:g}" for arm in arms)
    lost = int(table["missing"].max())
    end = [f"devices or users left out, at most in one run: {lost}"] if lost else []
    return [
        f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}",
        f"step sizes, chosen from {', '.join(f'{g:g}' for g in config.gammas)}: {text}",
        *end,
    ]
