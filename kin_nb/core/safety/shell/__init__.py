"""What a shell command line does, as far as reading it proves: harmless, unknown, or dangerous (judge.py).

Harmless is proven, never guessed: whatever this package does not know is unknown, and asks. Reads the line, the folders
that its words name and git's settings; runs nothing, writes nothing, asks nobody.
May import: kin_nb.core.safety, kin_nb.core.paths, tree-sitter (on first use).
"""

from kin_nb.core.safety.shell.judge import judge
from kin_nb.core.safety.shell.judgement import Judgement

__all__ = ["Judgement", "judge"]
