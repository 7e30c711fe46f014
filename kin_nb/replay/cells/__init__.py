"""The cells of a notebook: what each says to the agent, which records are its own, and what the agent ran in the notebook.

Owns a cell's key (matching.py), and to which cell a record belongs (placing.py).
Never reads or writes a file. May import: replay's recording and errors; core's records; nbformat inside functions.
"""
