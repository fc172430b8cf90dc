"""FSLoRA: federated LoRA whose devices train random components of the modules."""
