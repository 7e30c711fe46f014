"""What goes wrong in a cell, in a line or two: never a stack trace."""

from __future__ import annotations


class KinError(Exception):
    """Shown by IPython as its message alone; the cell counts as failed, so Run All stops there."""

    def _render_traceback_(self) -> list[str]:
        """IPython's own hook for exceptions that know how to show themselves."""
        return str(self).splitlines()


class TurnFailedError(KinError):
    """The turn ended with an error; what had happened until then is shown above."""
