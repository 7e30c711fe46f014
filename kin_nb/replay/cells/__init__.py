"""The cells of a session notebook: which one asked which turn, which one undoes, and what the agent ran in the notebook.

Owns the rules by which a cell finds its turn or undo (matching.py), and where each of them is in a notebook.
Never reads or writes a file. May import: replay's recording and errors; core's records; nbformat inside functions.
"""
