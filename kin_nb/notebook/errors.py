"""What goes wrong in a cell, in a line or two: never a stack trace."""

from __future__ import annotations


class KinError(Exception):
    """Shown by IPython as its message alone; the cell counts as failed, so Run All stops there."""

    def _render_traceback_(self) -> list[str]:
        """IPython's own hook for exceptions that know how to show themselves."""
        return str(self).splitlines()


class InPlaybackError(KinError):
    """A command that can do nothing in playback. Where a person is there it is a notice, so that Run All goes on."""


class TurnFailedError(KinError):
    """The turn ended with an error; what had happened until then is shown above."""
