"""What a save says of a replay: by a confined play of what it wrote, and by reading it where there is none."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kin_nb.core.interrupts import Interrupted
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.confined import ConfinedPlay, OnCell
from kin_nb.replay.runner.played import Played, in_words, not_its_own
from kin_nb.replay.saving.preflight import Preflight


@dataclass(frozen=True)
class AfterSaving:
    """`played`: to its end. `stops`: something was found that stops a replay, by a play or by reading."""

    lines: list[str]
    stops: bool
    played: bool = False


def only_read(read: Preflight, shown: str, why: str = "") -> AfterSaving:
    """`shown`: the notebook as it was named. `why` it was not played, "" where that was not wanted."""
    not_run = f"Not played after saving: {why.rstrip('.')}." if why else "Not run after saving."
    check = f"{not_run} To play it once in a copy{', unconfined' if why else ''}: {_check(shown)}"
    return AfterSaving([*read.lines(), check], stops=bool(read.stops))


def played_after_saving(
    play: ConfinedPlay, read: Preflight, shown: str, clean: Callable[[str], str], on_cell: OnCell
) -> AfterSaving:
    """`clean` takes out of a text what a save takes out. Ctrl-C ends the play, and the save stands."""
    try:
        played = play.run(on_cell)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        return only_read(read, shown, "you interrupted it")
    except (ReplayError, OSError) as wrong:
        return only_read(read, shown, clean(str(wrong)))
    lacks, shown_play = "", played
    if played.failure:
        lacks = not_its_own(played.failure, play.withheld, lambda name: is_there(play.path, name), clean)
        shown_play = replace(
            played, failure=played.failure.cleaned(clean)
        )  # before it is cut: half of a secret is no match
    own = played.failure is not None and not lacks
    line = clean(in_words(shown_play, play.seconds, lacks))
    if played.whole:
        return AfterSaving([line, *read.notes], stops=False, played=True)
    left = read.lines(beyond=_last_known(played, own=own))
    return AfterSaving([f"{line} To play it whole: {_check(shown)}", *left], stops=own or bool(read.stops))


def is_there(path: Path, name: str) -> bool:
    """Whether the file `name` is there for a cell of the notebook at `path`."""
    try:
        return (path.parent / name).exists()
    except (OSError, ValueError):
        return False


def _last_known(played: Played, *, own: bool) -> int:
    return played.at if own else max(0, played.at - 1)


def _check(shown: str) -> str:
    return f"kin-nb save {shlex.quote(shown)} --check"
