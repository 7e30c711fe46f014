"""`kin-nb`: the command line, for scripts, CI, and colleagues without JupyterLab.

Owns arguments, `--help`, stdout and stderr, exit codes. A command imports what it needs when it runs, so that each starts
fast. Never shows a stack trace: an error is one or two lines on stderr. May import: everything.
"""

from kin_nb.cli.main import main

__all__ = ["main"]
