"""Redaction: remove secrets and paths of this machine from texts that are logged, recorded, shown or sent to a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kin_nb.core.bounded_json import read_json
from kin_nb.core.paths import kin_home

SECRET = "[secret]"  # noqa: S105  (the replacement, not a secret)
REDACTED = "[redacted]"
"""Replaces a match of a pattern that the user named (`--redact`)."""
WORKSPACE = "{workspace}"
SHORTEST = 8
"""A value with fewer characters is not looked for in texts: it would match by chance."""
SHORTEST_CUT = 10
"""The same limit for a part of a value, at the beginning or end of a cut text."""

_SECRET_WORD = re.compile(
    r"""(?x) (?:^|_) (?:
        \w*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY)S? | SSHPASS | WEBHOOK
        | (?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|MASTER)_?KEYS?
    ) (?:_|$)
    | ^KEYS?_ | (?:^|_) KEYS?_?\d+ $
    | (?:^|_) (?:KEY|KEYS|AUTH|AUTHORIZATION|COOKIE|PASS|PAT|DSN|CONNECTION_STRING) $ | _PWD $""",
)
_ORDINARY = re.compile(r"[A-Za-z][a-z]{1,15}|[A-Z]{1,16}|\d{1,12}|(?:~|\.{0,2})/.*")
_SETTINGS_WITH_KEYS = {"KIN_PROVIDERS", "KIN_MCP_SERVERS"}
_URL_PASSWORD = re.compile(r"""(://[^\s/:@\[{$<"',\\]{0,100}):([^\s/@{}$<>\[\]"',\\]{1,300})@""")


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable suggests a secret; `githubToken` is read as GITHUB_TOKEN.

    Not secret: PWD and OLDPWD (folders), SSH_AUTH_SOCK and SSH_ASKPASS (a socket and a program, which git over ssh needs),
    words that only contain such a word (TOKENIZERS_PARALLELISM, KEYBOARD), and GIT_CONFIG_KEY_0 (a setting's name).
    """
    if re.fullmatch(r"GIT_CONFIG_KEY_\d+", name):
        return False
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").upper()
    return words not in {"PWD", "OLDPWD", "OLD_PWD"} and _SECRET_WORD.search(words) is not None


def url_passwords(text: str) -> list[str]:
    """Return the passwords inside the URLs of `text`."""
    return [match[2] for match in _URL_PASSWORD.finditer(text)]


def secrets_redactor(values: Iterable[str]) -> Redactor:
    """Return a redactor for texts that the model works with: it removes secrets and keeps paths.

    It also keeps an ordinary word or a path that is the value of a variable with a secret's name (PASSWORD=postgres):
    without them the model could not name files and programs.
    """
    root = Path("/")  # "/" as workspace and home: no path is replaced
    return Redactor((value for value in values if not _ORDINARY.fullmatch(value)), root, root)


# Each pattern runs only on texts that contain one of its literals. Every repetition is bounded, so that no text makes it slow.
# The lookbehind follows the first letters of a key: a pattern that begins with letters is found ten times as fast.
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("sk-",), re.compile(r"sk-(?<![A-Za-z0-9]sk-)(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]{20,}"), SECRET),
    (("gh",), re.compile(r"gh(?<![A-Za-z0-9]gh)[pousr]_\w{20,}", re.ASCII), SECRET),
    (("github_pat_",), re.compile(r"github_pat_(?<!\wgithub_pat_)\w{20,}", re.ASCII), SECRET),
    (("glpat-",), re.compile(r"glpat-(?<!\wglpat-)[A-Za-z0-9_-]{20,}"), SECRET),
    (("IA",), re.compile(r"A[KS]IA(?<!\wA[KS]IA)[0-9A-Z]{16}\b"), SECRET),
    (("AIza",), re.compile(r"AIza(?<!\wAIza)[0-9A-Za-z_-]{35}"), SECRET),
    (("hf_",), re.compile(r"hf_(?<!\whf_)[A-Za-z0-9]{30,}"), SECRET),
    (("npm_",), re.compile(r"npm_(?<!\wnpm_)[A-Za-z0-9]{36}"), SECRET),
    (("pypi-",), re.compile(r"pypi-(?<!\wpypi-)[A-Za-z0-9_-]{50,}"), SECRET),
    (("xox",), re.compile(r"xox(?<!\wxox)[abeposr]-[A-Za-z0-9-]{10,}"), SECRET),
    (("eyJ",), re.compile(r"eyJ(?<![\w-]eyJ)[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", re.ASCII), SECRET),
    (
        ("earer", "EARER"),
        re.compile(r"\b((?i:bearer)[ \t]{1,4})(?=[A-Za-z._~+/=-]{0,60}\d)[\w.~+/=-]{16,}", re.ASCII),
        rf"\1{SECRET}",
    ),
    (("asic", "ASIC"), re.compile(r"((?i:authorization)\W{1,5}(?i:basic) )[A-Za-z0-9+/=]{8,}"), rf"\1{SECRET}"),
    (("://",), _URL_PASSWORD, rf"\1:{SECRET}@"),
    (
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!----)){40,}"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
        ),
        SECRET,
    ),
)
_PATH_BEGINS = r"/(?:(?<![\w.~}-]/)|(?<=\s-[IL]/))"
_AFTER_PATH = r"(?![\w@+~-]|\.\w)"


class _Value(NamedTuple):
    """A secret in one spelling, with the beginning and end by which it is found in a cut text: at least half of it."""

    whole: str
    begin: str
    end: str

    @classmethod
    def of(cls, value: str) -> _Value:
        """Make one. Ordinary words and paths are only found whole, because other words begin or end like them."""
        half = len(value) if _ORDINARY.fullmatch(value) else max(SHORTEST_CUT, (len(value) + 1) // 2)
        return cls(value, value[:half], value[-half:])


class Redactor:
    """Replaces secrets and this machine's paths in texts by `[secret]`, `{workspace}` and `~`.

    `values`: the known secrets, which are also found escaped in JSON or a URL. Strings that look like well-known kinds of
    keys are replaced too. Where a text was cut, half of a secret at its beginning or end counts as the secret, if it has
    SHORTEST_CUT characters or more. `.text` is idempotent, and linear in the text: 100 KB take milliseconds.
    """

    def __init__(self, values: Iterable[str], workspace: Path, home: Path | None = None) -> None:
        found = {form for value in values if len(value) >= SHORTEST for form in (value, *_escaped(value))}
        harmless = {form for form in found if form in SECRET or form in WORKSPACE}
        self._values = [_Value.of(value) for value in sorted(found - harmless, key=lambda value: (-len(value), value))]
        self._places = dict.fromkeys(_spellings(home or Path.home()), "~")
        if home is None:  # KIN_HOME may have moved it: the record of a replay, whose own is elsewhere, reads the same
            self._places |= dict.fromkeys(_spellings(kin_home()), "~/.kin-code")
        self._places |= dict.fromkeys(_spellings(workspace), WORKSPACE)
        longest_first = "|".join(re.escape(place[1:]) for place in sorted(self._places, key=len, reverse=True))
        self._paths = re.compile(f"{_PATH_BEGINS}(?:{longest_first}){_AFTER_PATH}") if longest_first else None

    def text(self, text: str) -> str:
        begun = [value for value in self._values if value.begin in text]
        for value in begun:
            text = text.replace(value.whole, SECRET)
        for value in begun:
            text = _without_beginnings(text, value.whole, value.begin, SECRET)
        for value in self._values:
            if value.end in text:
                text = _without_beginnings(text[::-1], value.whole[::-1], value.end[::-1], SECRET[::-1])[::-1]
        text = _without_shapes(text)
        return self._paths.sub(lambda match: self._places[match[0]], text) if self._paths else text

    def is_in_json(self, text: str) -> bool:
        """Whether a secret is in JSON text that must be kept verbatim.

        Patterns of keys apply only to prose, because they match opaque data by chance.
        """
        known = any(value.whole in text for value in self._values)
        return known or any(is_prose(each) and _without_shapes(each) != each for each in texts_in_json(text))


def is_prose(text: str) -> bool:
    """Whether a text is words, and not opaque data such as base64 or a signature."""
    return " " in text


def texts_in_json(text: str) -> Iterator[str]:
    """Yield each string in JSON text, unescaped, object keys included; the whole text if it is not JSON."""
    try:
        waiting = [read_json(text)]
    except ValueError:
        waiting = [text]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def _without_shapes(text: str) -> str:
    for literals, pattern, replacement in _PATTERNS:
        if literals[0] in text or literals[-1] in text:
            text = pattern.sub(replacement, text)
    return text


def _without_beginnings(text: str, whole: str, begin: str, mark: str) -> str:
    """Replace each `begin` in `text`, and the characters after it that continue `whole`, by `mark`. Linear in the text."""
    kept, at = [], 0
    while (found := text.find(begin, at)) >= 0:
        kept.append(text[at:found])
        pairs = enumerate(zip(text[found : found + len(whole)], whole, strict=False))
        at = found + next((n for n, (a, b) in pairs if a != b), min(len(whole), len(text) - found))
    return mark.join([*kept, text[at:]])


def redact_json(text: str, redact: Callable[[str], str]) -> str:
    """Redact each string in JSON text, unescaped: patterns would not see the line breaks in escaped text.

    Returns the same text when nothing is replaced. A text that is not JSON is redacted as a whole.
    """
    try:
        value = read_json(text)
    except ValueError:
        return redact(text)
    clean = _redacted(value, redact)
    return text if clean == value else json.dumps(clean, ensure_ascii=False)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=2048)  # asked of every variable for every command
def holds_a_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret: its name suggests one, its URL has a password, or it is a setting with keys."""
    if name.upper() in _SETTINGS_WITH_KEYS:
        return True
    if name.upper().endswith("_PROXY"):
        return False
    return is_secret_name(name) or _URL_PASSWORD.search(value) is not None


def _escaped(text: str) -> set[str]:
    """Return the spellings of `text` in JSON and in URLs."""
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, errors="replace")}


def _spellings(path: Path) -> set[str]:
    """Return the ways in which texts may write a folder; none for `/`, which begins every path."""
    spellings = {str(path.absolute()), str(path.resolve())}
    spellings |= {place.removeprefix("/private") for place in spellings}  # macOS: /tmp is /private/tmp
    spellings |= {form for place in spellings for form in _escaped(place)}
    return {place for place in spellings if len(place) > 1}
