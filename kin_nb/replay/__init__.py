"""Session notebooks: the recording in a notebook, playing it back, running it again, and saying what drifted.

Owns the format (docs/session-notebook.md), finding and saving recordings, playback, ReplayBackend and the runner.
Never calls a model, never draws (kin_nb.render does), never runs code out of metadata, never writes onto an open file.
May import: core, render; nbformat, nbclient and jupyter_client inside functions. Never kin_nb.notebook.
"""
