"""The strict reader of command lines: proves that a line only reads, or names the first part that is not proven (prover.py).

A table is data: each flag in it is known to write nothing, run nothing, ask nothing and end. What a table does not name is
not proven. Only flags that mean the same to GNU, BSD and busybox are in it, as far as they take a value or do not.
Reads folders and git's settings; of programs it starts git alone, to ask what a name leads to.
May import: kin_nb.core.safety.shell.classification, and core's modules of paths, names and the workspace.
"""
