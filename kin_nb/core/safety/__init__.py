"""Decide which tool calls run: an ordered chain of small policies, the first answer wins (policies.py).

Owns decisions, approvals, grants, the audit log, and the classification of shell command lines (shell/). It never shows a question
and never runs a call: core/tools/approval_gate.py and the front ends do.
Read in this order: decision (the values), policies (the chain), grants, approvals, audit, shell/.
May import: core's modes, paths, sensitive names, tool types and workspace, config's errors, the standard library, pydantic.
"""
