"""The commands that are known, one table per family, and what reading their options means (program.py).

A table is data: each flag in it is known to write nothing, run nothing, ask nothing and end. What a table does not name is
not proven. Only flags that mean the same to GNU, BSD and busybox are in it, as far as they take a value or do not.
"""
