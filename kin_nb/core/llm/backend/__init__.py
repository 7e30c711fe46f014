"""Connections to model servers: one HTTP client per backend, streaming, retry, errors.

Owns time and the network; what the bytes mean is the adapters' business.
May import: core.llm, core.types, core.config, httpx and httpx_sse (on first use).
"""
