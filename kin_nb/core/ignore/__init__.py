"""Which files of a workspace are left out: .gitignore as git reads it, and what nobody wants to see.

Reads .gitignore files only. Raises nothing for what it finds on the disk. May import: the standard library.
"""
