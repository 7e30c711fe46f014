"""Who may do what. One mechanism: an ordered chain of small policies, first answer wins (policies.py).

Owns decisions, approvals, grants, the audit log, and what a shell command line does (shell/). Never asks anyone itself and
never runs a call.
May import: core's modes, paths, sensitive names, tool types and workspace, config's errors, the standard library, pydantic.
"""
