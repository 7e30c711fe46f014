"""Two runs of a session, compared: as values (runs.py), and as `kin-nb diff` says it (report.py).

Never compares what differs from run to run without meaning; reads no file, runs nothing.
May import: replay's recording, book and cells; core's records, render.
"""
