"""JUPYTER: the plumbing between one agent and the cell that it works in.

Owns: hearing comms while a cell blocks (`tap`), publishing to one cell (`cell_io`), the agent's thread
(`agent_thread`), waiting for it on the main thread (`pump`), asking a person (`approval`), what moves while a turn runs
(`streaming`), the namespace that the agent lives in (`live`).
Never: decides what is allowed, or what the agent does next; it shows, asks and waits.
May import: `kin_nb.core`, `kin_nb.render`, `kin_nb.replay`.
"""
