"""Session notebooks re-executed: one (run_notebook.py), or many in processes of their own (pool.py), and the report.

Owns the kernel's place, the run of the cells, the comparison of their outputs, `--scratch` and `--live`.
Never runs a notebook in its own file, and never writes to it: a copy runs.
May import: all of replay but plain, merging and commands; nbclient, jupyter_client and distributed inside functions.
"""
