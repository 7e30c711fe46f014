"""Two session notebooks that went on from one, joined: their recordings (recordings.py), their cells (cells.py), both.

Owns what is said when they cannot be. Never loses what a person wrote, never writes a file.
May import: replay's recording, book, errors, cells, format and saving; nbformat inside functions.
"""
