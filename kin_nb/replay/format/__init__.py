"""The storage format: a recording in a notebook's metadata (notebook_codec.py), in outputs, in a cell or in a sidecar file.

Owns the format (docs/reference/format.md), its JSON schema and its checks: every record that leaves here is verified, and what
edited is refused by name. Never writes a file (saving does), never repairs.
May import: replay's recording, errors and cells; nbformat inside functions.
"""
