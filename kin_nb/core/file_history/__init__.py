"""The file history: keep the contents of files before tool calls change them, and restore them (`FileHistory`).

Owns the stored contents (blobs), reading files (file_state, scan), comparing, planning and restoring. Writes to the
workspace only in `undo` and `redo`, never through a link and never into a .git. Never raises for what is on the disk: a
state that cannot be read is reported as unknown.
May import: core.records, core.workspace_commit, core.paths, core.redaction, core.sensitive_names, core.ignore_rules.
"""

from kin_nb.core.file_history.blobs import BlobStore, workspace_store
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.history import FileHistory
from kin_nb.core.file_history.notes import Before
from kin_nb.core.file_history.restore import Begin, Restored
from kin_nb.core.file_history.scan import ScanLimits

__all__ = ["Before", "Begin", "BlobStore", "FileHistory", "Restored", "ScanLimits", "StoreError", "workspace_store"]
