"""Experiments on LoRA-adapted language models; they need the installation extra ``llm``."""
