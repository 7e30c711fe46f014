r"""A file's name in records. A file name is bytes; a record is text that every JSON reader takes, on one line.

What is no UTF-8, a control character or a backslash is written `\xNN`, one for each byte; all else stays as it is. So
each name has one spelling, and gets its bytes back from it.
"""

from __future__ import annotations

import os
import re

_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def recorded_name(path: str) -> str:
    """`path` as Python gives it: what is no UTF-8 came in as surrogates."""
    return _UNSAFE.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in os.fsencode(match[0])), path)


def file_name(recorded: str) -> str:
    """The other way round. A backslash that begins no `\\xNN` stands for itself: records of before had no escapes."""
    raw = _ESCAPED.sub(lambda match: os.fsdecode(bytes([int(match[1], 16)])), recorded)
    return os.fsdecode(os.fsencode(raw)) if is_file_name(raw) else raw


def is_file_name(path: str) -> bool:
    """Whether a file can have that name: no NUL, no surrogate that stands for no byte."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False
