"""Stored sessions: the append-only log, the state that its lines describe, and the store that finds sessions.

Files are written in this order:

* with the first prompt: the line `session`, once (in an encrypted log after the line with the key's salt);
* per turn: `turn`, then per model request `reply`; before it, where there are any, `compaction`, `dmail` and `warning`;
* per tool call: `run` with the decision, a line of the audit log, a snapshot of the files in the file history (when the
  call may change some), the effect, the file with the full output (when the result was shortened), `result`;
* at the end of the turn: `end`, then one fsync of the log;
* between turns: `undoing` (before the first file is restored) and `undo` (a redo too; then an fsync), `clear`, `compact`,
  `renamed`, `continued`, `failed`; `resumed` before the first line of a resumed session.

A call that needs approval again, because no snapshot could be kept, has a second `run` and audit line.
Never renders, never decides. May import: the standard library, pydantic, core.records, core.messages, core.paths,
core.redaction, core.text, core.stopping, core.workspace_commit, core.config.
"""
