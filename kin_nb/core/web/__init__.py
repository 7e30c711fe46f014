"""The web, for the tools web_fetch and web_search: which addresses may be reached, a page fetched, its text, a search.

Owns every connection that a tool of ours opens by itself. Never decides whether a call runs (core.safety), never sends
cookies or keys but the configured search's, and trusts nothing that comes back. May import: core.tool_types,
core.llm.error_words, core.config, core.processes; on first use httpx, and ddgs where it is installed. Beautiful Soup and
markdownify run in a process of their own.
"""
