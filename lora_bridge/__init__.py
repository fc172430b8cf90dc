"""The algorithms of :mod:`linsys` and :mod:`mgda` on LoRA adapters of a language model.

The layer turns the adapters of many users into the flat vectors and the oracle that the
algorithms of :mod:`linsys` and :mod:`mgda` take; it defines no algorithm of its own.

=============================  ===================================================================
:mod:`lora_bridge.bank`        the adapters of many clients on one frozen model
:mod:`lora_bridge.models`      models from folders; ``pretrained`` makes folders of files and names
:mod:`lora_bridge.built_in`    a small model that is made on the spot
:mod:`lora_bridge.data`        questions, pairs, dialogues from files; also ``splits``, ``tokens``
:mod:`lora_bridge.tasks`       clients with samples and a loss of :mod:`lora_bridge.losses`
:mod:`lora_bridge.oracles`     such clients as devices of FSLoRA and users of P-ShareLoRA
:mod:`lora_bridge.affpcl`      as agents of AffPCL; density ratios in :mod:`lora_bridge.ratios`
:mod:`lora_bridge.measure`     what the theory speaks of, measured on a model; ``curvature``
:mod:`lora_bridge.firm`        alignment by several rewards as FIRM's oracle; ``rollouts``, ``ppo``
:mod:`lora_bridge.bilevel`     domains of texts and their oracle, for OOD-PL; ``domains``
:mod:`lora_bridge.peft_io`     exchange with PEFT
:mod:`lora_bridge.runs`        measurements along runs that go on after a kill; ``checkpoint``
:mod:`lora_bridge.metrics`     what runs measure, as files; ``chat`` with a model and its adapters
:mod:`lora_bridge.flower`      the same rounds across machines
=============================  ===================================================================

Importing it needs PyTorch, which a plain installation leaves out:
``pip install 'ratecheck[llm]'``.
"""

from linsys.validate import InputError


class NotInstalledError(InputError, ImportError):
    """What a plain installation leaves out; a command says it in one line, without a traceback."""


try:
    import torch  # noqa: F401
except ImportError as error:
    raise NotInstalledError(
        "lora_bridge needs PyTorch, which is not installed; "
        "install it with: pip install 'ratecheck[llm]', or in a clone '.[llm]'"
    ) from error
