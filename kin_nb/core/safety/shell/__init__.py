"""Classify a shell command line without running it: read-only, unknown, or dangerous (classify.py).

Read-only is proven, never guessed: whatever this package does not know is unknown, and asks. It reads the line, the folders
that the line names and git's settings. It runs no part of the line, writes nothing and asks no one.

There are three parsers, because the safe side of a mistake differs:
* reader/ is lenient. It finds every command that a line may run, at any depth, guesses values and never fails. dangerous.py
  refuses commands by it, named_scripts.py finds the files that run. Finding too much is safe.
* read_only/ is strict. It accepts plain lines only, and two independent tokenizers (the shell's rules, tree-sitter) must agree on
  every word. Proving too little is safe.
* command_prefix.py is the smallest: one command of plain words, for grants that cover commands with the same prefix.
command_parts.py divides a line with the strict one, and looks at each command with the smallest.
Read in this order: classification, classify, dangerous, reader/, read_only/, command_prefix, command_parts, environment_programs,
named_scripts.
May import: kin_nb.core.safety, kin_nb.core's paths, Python environments, sensitive names, tool types and workspace, tree-sitter
(on first use).
"""

from kin_nb.core.safety.shell.classification import Classification
from kin_nb.core.safety.shell.classify import classify

__all__ = ["Classification", "classify"]
