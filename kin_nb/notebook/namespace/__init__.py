"""The user's namespace: tools that read and run code in it, and attachments to prompts.

Owns: the tools `variables`, `python` and `notebook`; `@name` and `@path` in prompts; warnings about changed modules.
Never: imports pandas, numpy, matplotlib or Pillow unless the user has; publishes to the cell; decides what is allowed.
Touches the namespace on the main thread only (time_limit.py). May import: `kin_nb.core`, the notebook reader of
`kin_nb.replay`, IPython.
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
