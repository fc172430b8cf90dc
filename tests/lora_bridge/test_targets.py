"""Which modules of a model are adapted where only its last layers are."""

from __future__ import annotations

import pytest

from linsys import InputError
from lora_bridge.targets import in_last_layers

NAMES = ("embed", "h.0.q", "h.1.q", "h.1.mlp.v", "h.10.q", "lm_head")


@pytest.mark.parametrize(
    ("count", "left"),
    [
        (1, ("embed", "h.10.q", "lm_head")),
        (10, ("embed", "h.1.q", "h.1.mlp.v", "h.10.q", "lm_head")),
        (11, NAMES),
        (100, NAMES),
    ],
)
def test_the_last_layers_and_what_is_in_none(count: int, left: tuple[str, ...]) -> None:
    assert in_last_layers(NAMES, count) == left


def test_of_a_model_without_layers_everything() -> None:
    assert in_last_layers(["q", "v"], 1) == ("q", "v")


def test_no_layer_is_refused() -> None:
    with pytest.raises(InputError, match="`count` must be a whole number of at least 1; found 0"):
        in_last_layers(NAMES, 0)
