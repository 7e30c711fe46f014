"""How a recording is stored: in a notebook's metadata (in_notebook.py), cells, outputs, the sidecar beside it, or the log.

Owns the format (docs/reference/format.md), its JSON schema and its checks: what leaves here is verified, and what somebody
edited is refused by name. Never writes a file (saving does), never repairs.
May import: replay's recording, errors and cells; nbformat inside functions.
"""
