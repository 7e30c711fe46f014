"""What moves in a cell during a turn: the reply as it arrives, and the progress line.

Owns: how often a display is redrawn, and the fallbacks for clients without widgets or redrawing. Never: makes a card (those
are kin_nb.render's). Everything here runs on the agent's loop.
May import: kin_nb.render, kin_nb.notebook's cell_io, tap and approval.card; ipywidgets on first use.
"""
