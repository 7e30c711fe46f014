"""Completion of `@path` and `/command` in a prompt, and the paths that a prompt mentions (seed 003).

Owns the matching, the index of the workspace's files and the rules of what it leaves out. Never draws, never reads a
file's content but `.gitignore`, starts no thread and polls nothing. May import: core.safety's workspace, the standard
library.
"""
