"""What a shell command line does, as far as reading it proves: harmless, unknown, or dangerous (judge.py).

Harmless is proven, never guessed: whatever this package does not know is unknown, and asks. Reads the line, the folders
that its words name and git's settings; runs nothing of the line, writes nothing, asks nobody.

Command lines are read by several readers, because a mistake must never be on the harmful side, and that is another side
for each question:
* reader/ is lenient: it finds every command that a line may run, in any nesting, guesses values and never fails. dangerous.py
  refuses what it finds, named_scripts.py tells which files run. Too much found does little harm.
* read_only/ is strict: it takes plain lines only, read by two readers of their own (the shell's rules, tree-sitter) that must
  agree word by word. Whatever it cannot read for certain is not proven.
* plain_words (safety/shell/command_prefix.py) is the smallest: one command of plain words, for approvals of a beginning.
May import: kin_nb.core.safety, kin_nb.core's paths, sensitive names, tool types and workspace, tree-sitter (on first use).
"""

from kin_nb.core.safety.shell.judge import judge
from kin_nb.core.safety.shell.judgement import Judgement

__all__ = ["Judgement", "judge"]
