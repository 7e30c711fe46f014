"""Talking to model servers: backends, wire formats, retry, errors (seeds 000, 003).

Owns everything provider-specific. Knows nothing of tools' meaning, of sessions or of screens.
May import: core.types, core.config, httpx (on first use).
"""
