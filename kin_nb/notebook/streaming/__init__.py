"""What moves in a cell while its turn runs: a reply as it is written, and the line that says what takes so long.

Owns how often something is drawn, and what a client is shown that draws no widgets or cannot redraw at all. Never makes
a card: those are kin_nb.render's. Everything here is touched on the agent's loop only.
May import: kin_nb.render, kin_nb.notebook's cell_io, tap and approval.card; ipywidgets on first use.
"""
