"""From the words on the command line to a plan; the only package with Hydra and OmegaConf."""

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment")
ROOTS = frozenset({*GROUPS, "batch_size", "seed", "resume", "search", "hydra"})
