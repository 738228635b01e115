"""What strangers, damaged files and programs may do, by the class: each case says what fell short.

strangers.py    records that somebody else wrote: again, tables, pages, secrets
sweeps.py       sweeps whose files, folders and temporary files are damaged under way
bad_data.py     figures, YAML and words that cannot be; a machine that refuses to write
exceptions.py   exceptions of which nothing can be read
programs.py     programs that break what the runner stands on, each in a child of one warm server
breaks.py       what these programs break: the child's side
faults.py       a fault at each call that writes, syncs, renames or deletes
classes.py      all of them, by name
"""
