"""P-ShareLoRA: personal reward models whose low-rank adapters share one factor."""
