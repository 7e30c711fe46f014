"""Playback: the recording that a cell names is found (locate.py), and each cell shows its own records (player.py).

Owns the search, what a cell says whose text was edited, which variables are missing, and how an agent continues from a recording.
Never runs anything, never writes, never calls a model, and takes no file's word for which recording it holds.
May import: replay's errors, recording, cell_keys, binding_cells, format and book; core, render.
"""
