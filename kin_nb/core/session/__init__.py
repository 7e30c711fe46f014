"""Stored sessions: the append-only log, the state that its lines describe, and the store that finds sessions.

What is written, and in which order (docs/reference/files-on-disk.md):

* with the first prompt: the line `session`, once (in an encrypted log after the line with the key's salt);
* when a turn begins: `turn`, with the prompt;
* for each model request, when the reply is complete: `reply`; before it, where there are any, `compaction`, `dmail` and
  `warning`;
* for each tool call: if it is approved "always", the rule in config.toml; the decision, `run` and a line in the audit log
  (core.tools.approval_gate, `_record`); if the call may change files, their state before it (core.tools.file_tracker);
  the effect; the state of these files after it (file_tracker); a result that was shortened, as a whole, in a file of its
  own; `result` (core.tools.executor);
* when the turn ends: `end`, then one fsync;
* between turns: `undoing` (before an undo restores the first file; a redo writes none), `undo` (after an undo or a redo;
  then an fsync), `clear`, `compact`, `continued`, `failed`; `resumed` before the first line of a resumed session;
* `renamed` before `clear`, `compact` and `compaction`, because the conversation has a new id; `system_prompt` after a
  clear, and when the prompt was built again.

A call that needs approval again, because no snapshot could be kept, has a second `run` and audit line. The calls of a
subagent have no lines here: another `run` of the call that started it says what it did.
`turn`, `run` and `undoing` are written before what they announce; `reply`, `result`, `undo`, `clear`, `compact` and
`compaction` after it.
Never renders, never decides. May import: the standard library, pydantic, core.records, core.messages, core.paths,
core.redaction, core.text, core.stopping, core.workspace_commit, core.config.
"""
