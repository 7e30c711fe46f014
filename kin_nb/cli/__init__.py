"""`kin-nb`: scripts, CI, and teammates without JupyterLab.

Owns the command line: arguments, what goes to stdout and stderr, exit codes. Every command imports what it needs when it
runs. Errors are one or two lines on stderr, never a stack trace. May import: everything.
"""

from kin_nb.cli.main import main

__all__ = ["main"]
