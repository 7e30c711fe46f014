"""Talking to model servers: backends, wire formats, retry, errors.

Owns everything provider-specific. Knows nothing of tools' meaning, of sessions or of screens.
May import: core.messages, core.records, core.urls, core.config, httpx (on first use).
"""
