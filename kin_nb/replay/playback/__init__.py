"""Playback: the recording that a cell names is found (finding.py), and each cell shows its own records (cells.py).

Owns the search, what a cell says whose text was edited, what ships in the wheel, and how an agent continues from a recording.
Never runs anything, never writes, never calls a model, and takes no file's word for which recording it holds.
May import: replay's recording, errors, cells and format; core, render.
"""
