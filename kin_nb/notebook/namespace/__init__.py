"""Live variables: the agent sees the namespace that it lives in, and a prompt can attach what is in it.

Owns: the tools `variables`, `python` and `notebook`, `@name` and `@path` in prompts, hints at imported code that has changed.
Never: imports pandas, numpy, matplotlib or Pillow for somebody who has not; publishes to the cell; decides what is allowed.
The namespace is touched on the main thread only, between pumps (time_limit.py). May import: `kin_nb.core`,
`kin_nb.replay`'s reading of notebooks, IPython.
"""

from kin_nb.notebook.namespace.attachments import Attachments, collect_attachments
from kin_nb.notebook.namespace.python import add_namespace_tools, install_tools, namespace_tools
from kin_nb.notebook.namespace.time_limit import main_thread

__all__ = [
    "Attachments",
    "add_namespace_tools",
    "collect_attachments",
    "install_tools",
    "main_thread",
    "namespace_tools",
]
