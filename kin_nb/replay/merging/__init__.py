"""Two session notebooks that went on from one, joined: their recordings (recordings.py), their cells (cells.py), both.

Owns what is said when they cannot be, and the undo that takes one side's turns back (taking_back.py).
Never loses what a person wrote, never writes a file.
May import: replay's recording, errors, standing, cells, format, saving and rerun's patches; nbformat inside functions.
"""
