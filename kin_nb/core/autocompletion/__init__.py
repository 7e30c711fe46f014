"""Completion of `@path` and `/command` in a prompt, and the paths that a prompt mentions (seed 003).

Owns the matching and the index of the workspace's files. Never draws, never reads a file's content but `.gitignore`, starts
no thread and polls nothing. May import: core.workspace, core.ignore_rules, the standard library.
"""
