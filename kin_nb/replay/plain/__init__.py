"""The plain export: what a session did as ordinary cells (export.py), for where there is no kin_nb.

Owns which call becomes which cell (calls.py), and how text becomes a cell in which nothing runs.
Never writes a file. `apply_change` goes into a cell as it is, so it uses nothing of ours.
May import: replay's recording, book, cells, saving and rerun's patches; core, render; nbformat inside functions.
"""
