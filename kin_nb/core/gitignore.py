"""The rules of one ignore file, read like gitignore(5) and git's own matcher. Imports only the standard library.

pathspec is not used: its GitIgnoreSpec decides for whole paths, and so omits folders that git enters (`*` then `!*/`,
or `build/**` then `!build/keep`). The tests compare every rule with `git`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"(?P<escaped>\\.)|(?P<stars>\*+)|(?P<any>\?)|(?P<set>\[[!^]?\]?(?:\\.|[^\]\\])*\])|.", re.DOTALL)


class BrokenRuleError(ValueError):
    """A line that cannot match anything. It is ignored, as in git."""


@dataclass(frozen=True)
class _Rule:
    number: int
    regex: str
    negated: bool
    anchored: bool
    """Whether the rule is matched against the whole path instead of the name."""


class Patterns:
    """The lines of an ignore file. The last one that matches decides."""

    def __init__(self, text: str) -> None:
        rules = list(_rules(text))
        self._by_path = _Table([rule for rule in rules if rule.anchored])
        self._by_name = _Table([rule for rule in rules if not rule.anchored])

    def decide(self, path: str, start: int = 0) -> bool | None:
        """Return True for ignored, False for included again by a `!` line, None when no line matches.

        The folders above `path` are not checked. The part of `path` from `start` is relative to the ignore file's folder,
        with `/`; the path of a folder ends in `/`.
        """
        name = path.rfind("/", start, len(path) - 1) + 1 or start
        named, placed = self._by_name.last_match(path, name), self._by_path.last_match(path, start)
        found = [rule for rule in (named, placed) if rule is not None]
        return not max(found, key=lambda rule: rule.number).negated if found else None


class _Table:
    """Rules as one regular expression, the last rule first, so that the first alternative that matches decides."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._rules = rules[::-1]
        self._regex = re.compile("|".join(f"({rule.regex})" for rule in self._rules)) if rules else None

    def last_match(self, path: str, start: int) -> _Rule | None:
        match = self._regex.fullmatch(path, start) if self._regex else None
        return self._rules[match.lastindex - 1] if match and match.lastindex else None


def _rules(text: str) -> list[_Rule]:
    rules = []
    for number, line in enumerate(text.split("\n")):
        try:
            rule = _rule(number, line.removesuffix("\r"))
        except BrokenRuleError:
            continue
        if rule is not None:
            rules.append(rule)
    return rules


def _rule(number: int, line: str) -> _Rule | None:
    """Parse a line. None for an empty line and a comment. Raises BrokenRuleError."""
    pattern = _without_trailing_blanks(line)
    if not pattern or pattern.startswith("#"):
        return None
    negated, pattern = pattern.startswith("!"), pattern.removeprefix("!")
    ending, pattern = ("/" if pattern.endswith("/") else "/?"), pattern.removesuffix("/")
    anchored, pattern = "/" in pattern, pattern.removeprefix("/")
    if not pattern:
        return None
    return _Rule(number, (path_regex(pattern) if anchored else name_regex(pattern)) + ending, negated, anchored)


def _without_trailing_blanks(line: str) -> str:
    """Remove the spaces at the end, except for one after a backslash."""
    text = line.rstrip(" ")
    if (len(text) - len(text.rstrip("\\"))) % 2 == 0:
        return text
    if text == line:
        raise BrokenRuleError(line)
    return text + " "


def path_regex(pattern: str) -> str:
    """Return the regular expression for a whole path. Raises BrokenRuleError.

    `**` between slashes matches any number of folders. Each part before the last is matched at its first possible place,
    without backtracking (atomic groups): this finds every match, and no pattern takes exponential time.
    """
    groups: list[list[str]] = [[]]
    for segment in pattern.split("/"):
        if len(segment) > 1 and not segment.strip("*"):
            groups.append([])
        else:
            groups[-1].append(name_regex(segment))
    head, *rest = groups
    if not rest:
        return "/".join(head)
    *middle, tail = rest
    between = "".join(f"(?>(?:[^/]+/)*?{_folders(group)})" for group in middle if group)
    return _folders(head) + between + ("(?:[^/]+/)*" + "/".join(tail) if tail else ".+")


def _folders(names: list[str]) -> str:
    return "".join(f"{name}/" for name in names)


def name_regex(pattern: str) -> str:
    """Return the regular expression for a name between two slashes; without backtracking at `*`, as in `path_regex`."""
    pieces = [""]
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        match token.lastgroup:
            case "stars":
                pieces.append("")
            case "any":
                pieces[-1] += "[^/]"
            case "set":
                pieces[-1] += _set(text[1:-1])
            case "escaped":
                pieces[-1] += re.escape(text[1])
            case _ if text in {"[", "\\"}:
                raise BrokenRuleError("its [ has no end" if text == "[" else "it ends in a backslash")
            case _:
                pieces[-1] += re.escape(text)
    head, *rest = pieces
    if not rest:
        return head
    *middle, tail = rest
    between = "".join(f"(?>[^/]*?{piece})" for piece in middle if piece)
    return f"(?=[^/]){head}{between}[^/]*{tail}"  # a name is never empty: `a/*` is not `a/`


def _set(inner: str) -> str:
    """Translate a set such as `[a-c_]` or `[!a]`. Named classes (`[:alpha:]`), which are rare, raise BrokenRuleError."""
    if "[:" in inner:
        raise BrokenRuleError(inner)
    negated = inner.startswith(("!", "^"))
    members = re.findall(r"\\?.", inner[negated:], re.DOTALL)
    regex, at = "", 0
    while at < len(members):
        low = members[at][-1]
        high = members[at + 2][-1] if members[at + 1 : at + 2] == ["-"] and at + 2 < len(members) else ""
        regex += re.escape(low) + (f"-{re.escape(high)}" if high >= low else "")
        at += 3 if high else 1
    return f"(?!/)[{'^' if negated else ''}{regex}]"
