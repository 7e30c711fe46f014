"""What files were before calls changed them, kept outside the workspace, and put back: `FileHistory` (history.py).

Owns the contents (blobs), looking (file_state, scan), comparing, planning and restoring. Writes to the workspace in `undo`
and `redo` only, never through a link, never into a .git. Never raises for what it finds on a disk: what it cannot know is
not claimed.
May import: core.records, core.workspace_commit, core.paths, core.redaction, core.sensitive_names, core.ignore_rules.
"""

from kin_nb.core.file_history.blobs import BlobStore, workspace_store
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.history import FileHistory
from kin_nb.core.file_history.notes import Before
from kin_nb.core.file_history.restore import Begin, Restored
from kin_nb.core.file_history.scan import ScanLimits

__all__ = ["Before", "Begin", "BlobStore", "FileHistory", "Restored", "ScanLimits", "StoreError", "workspace_store"]
