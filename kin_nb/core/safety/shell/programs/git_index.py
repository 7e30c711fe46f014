"""The names of the files that git tracks: read from its index, never by git."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.judgement import UnprovenError

LARGEST_INDEX = 64_000_000
_BEFORE_HASH = 40
_EXTENDED = 0x4000
_LONGEST = 0xFFF


def tracked(folder: Path, settings: Path) -> Iterator[str]:
    """The paths in the index of the git folder `folder`, whose settings are in `settings`.

    Raises UnprovenError for an index of another layout: versions 2 and 3 are read, in one file.
    """
    index = folder / "index"
    if not index.exists():
        return
    if any(folder.glob("sharedindex.*")) or not index.is_file() or index.stat().st_size > LARGEST_INDEX:
        raise _unknown()
    data = index.read_bytes()
    longer = re.search(r"(?i)objectformat\s*=\s*\"?sha256", read_settings(settings / "config") or "")
    yield from _index_paths(data, _BEFORE_HASH + (32 if longer else 20))


def _index_paths(data: bytes, flags_at: int) -> Iterator[str]:
    if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        raise _unknown()
    entry = 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[entry + flags_at : entry + flags_at + 2], "big")
        begin = entry + flags_at + (4 if flags & _EXTENDED else 2)
        end = data.find(b"\0", begin)
        if end < 0 or min(end - begin, _LONGEST) != flags & _LONGEST:
            raise _unknown()
        yield data[begin:end].decode(errors="surrogateescape")
        entry += (end - entry + 8) // 8 * 8


def _unknown() -> UnprovenError:
    return UnprovenError("git's index is of a kind that is not read, and may name files that hold secrets")
