"""Who may do what. One mechanism: an ordered chain of small policies, first answer wins (chain.py).

Owns decisions, grants, the workspace's paths and secrets. Never asks anyone itself and never runs anything.
May import: the standard library, pydantic.
"""
