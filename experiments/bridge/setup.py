"""What a configuration is carried out with: its model, adapters on it, and draws of its data.

A configuration holds parameters; a set-up loads and draws what they say. Each paper's bridge adds
the draws of its experiments, and keeps those that were asked for last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from lora_bridge.bank import AdapterBank
    from lora_bridge.models import Loaded
    from lora_bridge.tokens import Encoded

E = TypeVar("E")
F = TypeVar("F", bound=Callable[..., Any])
#: Layers and heads of the built-in model where runs are many.
SMALL = (1, 2)


def kept(count: int) -> Callable[[F], F]:
    """Decorate a method so that its last answers are kept, ``count`` for all set-ups together."""
    return lru_cache(maxsize=count)  # type: ignore[return-value]


@dataclass(frozen=True)
class Setup:
    """The model of a configuration and what belongs to it; equal for equal configurations.

    Attributes:
        config: of experiments on a model, with ``model``, ``data``, ``hidden``, ``targets``,
            ``scaling``, ``max_length``, ``dtype`` and ``device``, and maybe ``layers``, ``chunk``,
            ``checkpoint`` and ``dropout``.
        task: what the model is loaded for, see :func:`lora_bridge.models.load_model`.
        attention: its implementation; "eager" where second derivatives are needed.
        autocast: whether "bfloat16" is what the model's products are computed in; otherwise it is
            what its weights are stored in as well.
        sizes: layers and heads of the built-in model, where they are not its usual ones.
    """

    config: Any
    task: ClassVar[str] = "lm"
    attention: ClassVar[str] = "sdpa"
    autocast: ClassVar[bool] = False
    sizes: ClassVar[tuple[int, ...]] = ()

    @property
    def loaded(self) -> Loaded:
        """The model with its tokenizer, read once."""
        import torch

        config, half = self.config, self.config.dtype == "bfloat16"
        return _load(
            config.model,
            config.data,
            (config.hidden, *self.sizes),
            self.task,
            getattr(config, "prompt", "auto"),
            dtype=torch.float32 if half and self.autocast else getattr(torch, config.dtype),
            device=config.device,
            attention=self.attention,
            seed=config.derive("head") % 2**32,
        )

    def bank(self, targets: Sequence[str] | None = None) -> AdapterBank:
        """Adapters on the model's ``targets``, those of the configuration without any.

        With ``layers`` in the last layers alone; what is below them is computed once for a text.
        """
        import torch

        from lora_bridge import cards
        from lora_bridge.bank import AdapterBank
        from lora_bridge.targets import in_last_layers

        config, half = self.config, self.config.dtype == "bfloat16"
        given = ("scaling", "chunk", "checkpoint", "dropout")
        options = {name: getattr(config, name) for name in given if hasattr(config, name)}
        autocast = torch.bfloat16 if half and self.autocast else None
        names = config.targets if targets is None else targets
        options["divided"] = cards.size() > 1
        bank = AdapterBank(self.loaded.model, names, **options, autocast=autocast)
        layers = getattr(config, "layers", None)
        if layers is None:
            return bank
        return bank.with_options(targets=in_last_layers(bank.names, layers), reuse=True)

    def tensor(self, X: Any) -> Any:
        """An array as adapters of the model, which are never in half precision."""
        import torch

        dtype = torch.float64 if self.config.dtype == "float64" else torch.float32
        return torch.as_tensor(X, dtype=dtype, device=self.config.device)

    def encoded(self, encode: Callable[..., E], samples: Sequence[Any]) -> E:
        """Samples by a function of :mod:`lora_bridge.tokens`; what is too long is cut."""
        config = self.config
        return encode(self.loaded.tokenizer, samples, config.max_length, too_long="cut")

    def source(self, generated: str, *samples: Encoded, left_out: int = 0) -> str:
        """The data's name, ``generated`` without a file, and what was cut and left out of it."""
        from lora_bridge.tokens import said

        data = self.config.data
        return (generated if data is None else data.name) + said(*samples, left_out=left_out)

    def described(self, generated: str, *samples: Encoded, left_out: int = 0) -> str:
        """The names of model and data, and the form of prompts that are not plain."""
        from lora_bridge.templates import style_of

        style = style_of(self.loaded.tokenizer)
        form = "" if style == "plain" else f", prompts: {style}"
        source = self.source(generated, *samples, left_out=left_out)
        return f"model {self.loaded.name}{form}, data: {source}"


def divided(samples: Mapping[str, Any], counts: Iterable[int]) -> list[dict[str, Any]]:
    """Samples as parts of so many each, in order."""
    ends = [0, *accumulate(counts)]
    return [
        {name: value[start:end] for name, value in samples.items()} for start, end in pairwise(ends)
    ]


@lru_cache(maxsize=1)
def _load(
    model: Path | None,
    data: Path | None,
    sizes: tuple[int, ...],
    task: str,
    prompt: str,
    **options: Any,
) -> Loaded:
    from lora_bridge.built_in import BuiltIn, built_in
    from lora_bridge.models import load_model
    from lora_bridge.prompts import prompt_texts
    from lora_bridge.templates import with_prompt

    place = model or built_in(prompt_texts(data), BuiltIn(*sizes))
    loaded = load_model(place, task, **options)
    return replace(loaded, tokenizer=with_prompt(loaded.tokenizer, prompt))
