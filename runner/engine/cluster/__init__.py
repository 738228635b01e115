"""A sweep's cells on a cluster: workers take cell after cell until none is left.

executor.py     the parent's side: starts workers, yields each run as its record appears
worker.py       a worker: the loop of `measure.py`, whose source is the queue
cell_queue.py   which cells there are, who has taken which, what each worker reports: files
slurm.py        starts workers as jobs of Slurm, and knows which have ended
ray.py          the same as actors of Ray

Parent and workers know of each other only through the files of the queue, in the sweep's folder,
and through what Slurm or Ray says of a worker's end. One more kind of cluster is one more file like
`slurm.py`, a line in `executor.py` and its words in `conf/hydra/launcher/`.
"""
