"""Symbolic links in a copy of the workspace: none leads back into the original."""

from __future__ import annotations

import os
from pathlib import Path

from kin_nb.core.paths import real_path


def relative_target(workspace: Path, folder: Path, target: str) -> str:
    """Return what a link to `target`, in a folder below `workspace`, must name in a copy of the workspace.

    A relative path where the link leads into `workspace` through an absolute path or through a folder outside of it;
    `target` itself otherwise.
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


def make_relative(copy: Path, workspace: Path) -> None:
    """Change each link in `copy`, a copy of `workspace`, that would lead back into `workspace`."""
    for root, folders, files in os.walk(copy):
        here = Path(root)
        for link in (here / name for name in (*folders, *files)):
            if link.is_symlink():
                target = str(link.readlink())
                target_in_copy = relative_target(workspace, workspace / here.relative_to(copy), target)
                if target_in_copy != target:
                    link.unlink()
                    link.symlink_to(target_in_copy)
