"""Session notebooks: the recording in a notebook, playing it back, running it again, and saying what drifted.

Owns the recording as a value, its errors, and a sub-package for each thing that is done with it (docs/reference/format.md).
Never calls a model, never draws (kin_nb.render does), never runs code out of metadata, never writes onto an open file.
May import: core, render; nbformat, nbclient and jupyter_client inside functions. Never kin_nb.notebook. Inside, each may
import those before it: errors, recording < environment, cell_keys < binding_cells < format < book, rerun < playback,
run_diff < saving < plain_export, merging, runner < commands (tests/unit/test_architecture.py).
"""
