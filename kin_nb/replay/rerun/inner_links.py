"""Links of a workspace that lead into it by its own place: in a copy they would lead back to the original."""

from __future__ import annotations

import os
from pathlib import Path

from kin_nb.core.paths import real_path


def inner(workspace: Path, folder: Path, target: str) -> str:
    """`target` of a link in `folder`, which is below `workspace`, as it must be in a copy of the workspace.

    Relative where it leads into `workspace` by way of what lies outside of it; else as it is.
    """
    root, here = real_path(workspace), real_path(folder)
    steps = Path(target).parts
    on_the_way = [here.joinpath(*steps[:n]) for n in range(1, len(steps) + 1)]
    # `..` after a link is not where the text says: what is on the way is followed, the last step is not
    stays = [Path(os.path.normpath(place)) for place in on_the_way] + [real_path(place) for place in on_the_way[:-1]]
    if all(place.is_relative_to(root) for place in stays) and not Path(target).is_absolute():
        return target
    there = here / target
    named = real_path(there) if there.name == ".." else real_path(there.parent) / there.name
    within = next((place for place in (named, real_path(there)) if place.is_relative_to(root)), None)
    return target if within is None else os.path.relpath(within, here)


def turn_inward(copy: Path, workspace: Path) -> None:
    """Mend those links in `copy`, which is one of `workspace`."""
    for root, folders, files in os.walk(copy):
        here = Path(root)
        for link in (here / name for name in (*folders, *files)):
            if link.is_symlink():
                target = str(link.readlink())
                mended = inner(workspace, workspace / here.relative_to(copy), target)
                if mended != target:
                    link.unlink()
                    link.symlink_to(mended)
