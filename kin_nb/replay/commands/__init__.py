"""`kin-nb save`, `merge`, `replay` and `demo`: what each prints, and its exit code.

Never reads arguments (kin_nb.cli does), and never decides what is the same and what is drift: that is below.
May import: all of replay; render.
"""
