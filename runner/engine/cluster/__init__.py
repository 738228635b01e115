"""Cells of a sweep as tasks of Dask, which hands them out, notices lost workers and tries again:
`executor.py` in the command, `clusters.py` between them, `worker.py` a warm server elsewhere."""
