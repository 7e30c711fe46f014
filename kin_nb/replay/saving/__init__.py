"""Saving: records, and the cells that a person wrote, become a session notebook on disk.

Owns the making of it (making.py), its options, what is taken out (privacy.py), and the one way to the disk (writing.py).
Never writes half a file, and never over what only the file there holds.
May import: replay's recording, errors, cells, format and playback; core, render; nbformat and httpx inside functions.
"""
