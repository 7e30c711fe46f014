"""JUPYTER: connects one agent with the cells of one notebook.

Owns: the magics and the Kin kernel, a session's mode (live, playback, re-execution), publishing to one cell (`cell_io`), comm
messages while a cell blocks the kernel (`tap`), the agent's thread and the wait for it (`main_thread_loop`), questions to the
user (`approval`), progress (`streaming`), the user's namespace (`namespace`).
Never: decides what is allowed, or what the agent does next.
May import: `kin_nb.core`, `kin_nb.render`, `kin_nb.replay`.
"""
