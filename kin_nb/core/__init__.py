"""The agent. Owns the loop, tools, safety, model servers and the session log.

Knows nothing of Jupyter, widgets or notebooks; never renders; writes files of its own only through the session log.
May import: the standard library, pydantic, httpx. Everything here is async; nothing is created at import.
"""
