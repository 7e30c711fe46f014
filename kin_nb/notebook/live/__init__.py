"""Live variables: the agent sees the namespace that it lives in, and a prompt can attach what is in it.

Owns: the tools `variables`, `python` and `notebook`, `@name` and `@path` in prompts, hints at imported code that has changed.
Never: imports pandas, numpy, matplotlib or Pillow for somebody who has not; publishes to the cell; decides what is allowed.
The namespace is touched on the main thread only, between pumps (time_limit.py). May import: `kin_nb.core`,
`kin_nb.replay`'s reading of notebooks, IPython.
"""

from kin_nb.notebook.live.attachments import Attached, attach
from kin_nb.notebook.live.python import add_live_tools, live_tools, move_in
from kin_nb.notebook.live.time_limit import main_thread

__all__ = ["Attached", "add_live_tools", "attach", "live_tools", "main_thread", "move_in"]
