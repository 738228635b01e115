"""From the words on the command line to a plan; the only room with Hydra and OmegaConf.

composition.py   has Hydra take the words apart into cells, runs nothing, and makes the plan
words.py         the words: what Hydra would let pass in silence is refused
copies.py        a sweep's cells as copies of what Hydra composed once
launchers.py     launchers that distribute, made to wait for all of their jobs
searching.py     a sweeper that searches: all it may ask for, and each batch that it does
sampler.py       how to search a grid for its front in few cells
experiments.py   one composed configuration as a typed, checked `Experiment`
translation.py   Hydra's, OmegaConf's and YAML's errors, all of them, as `BadInput`
store.py         the store that `tracking=` names, for verbs that run nothing
"""

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment")
ROOTS = frozenset({*GROUPS, "batch_size", "seed", "resume", "search", "hydra"})
