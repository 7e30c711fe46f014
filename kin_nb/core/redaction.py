"""Redaction: secrets and paths of this machine are kept out of whatever is logged, recorded, shown or given to a model."""

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

SECRET = "[secret]"  # noqa: S105  (what stands for one)
REDACTED = "[redacted]"
"""What stands for a match of a pattern that the user named (`--redact`)."""
WORKSPACE = "{workspace}"
SHORTEST = 8
"""Characters below which a value is not looked for in text: it would match by chance."""
SHORTEST_CUT = 10
"""As SHORTEST, of a part of one."""

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
    """Whether a variable of this name holds a secret, as far as names tell; `githubToken` reads as GITHUB_TOKEN.

    Not secret: PWD, OLDPWD (folders), SSH_AUTH_SOCK, SSH_ASKPASS (a socket and a program, which git over ssh needs),
    TOKENIZERS_PARALLELISM, KEYBOARD and other words that only contain one; GIT_CONFIG_KEY_0 (a setting's name).
    """
    if re.fullmatch(r"GIT_CONFIG_KEY_\d+", name):
        return False
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").upper()
    return words not in {"PWD", "OLDPWD", "OLD_PWD"} and _SECRET_WORD.search(words) is not None


def url_passwords(text: str) -> list[str]:
    """The passwords inside the URLs of `text`."""
    return [match[2] for match in _URL_PASSWORD.finditer(text)]


def secrets_redactor(values: Iterable[str]) -> Redactor:
    """For texts that the model gets and works with: paths stay, and so does an ordinary word or a path that some variable
    holds although its name promises a secret (PASSWORD=postgres): without those it could not name files and programs.
    """
    root = Path("/")  # the root is no place
    return Redactor((value for value in values if not _ORDINARY.fullmatch(value)), root, root)


# Each pattern runs only on texts that hold one of its literals; all are bounded, so that no text makes them slow. What must not
# stand before a key is looked for after its first letters: a search for letters is ten times as fast.
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
    """A secret as texts may spell it, and what is left of it where a text was cut: half of it at least."""

    whole: str
    begin: str
    end: str

    @classmethod
    def of(cls, value: str) -> _Value:
        """An ordinary word and a path are looked for whole: others begin or end as they do."""
        half = len(value) if _ORDINARY.fullmatch(value) else max(SHORTEST_CUT, (len(value) + 1) // 2)
        return cls(value, value[:half], value[-half:])


class Redactor:
    """Takes secrets and this machine's paths out of texts: `[secret]`, `{workspace}`, `~`.

    `values` are secrets to the letter, also where JSON or a URL has escaped them; well-known shapes of keys go as well. Where
    a text was cut, half of a secret at its beginning or its end, from SHORTEST_CUT characters on, counts as the secret.
    `.text` is idempotent, and linear in the text: 100 KB take milliseconds.
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
        """Whether a secret is in JSON text that must stay verbatim; in opaque data a known one only, since shapes match that
        by chance.
        """
        known = any(value.whole in text for value in self._values)
        return known or any(is_prose(each) and _without_shapes(each) != each for each in texts_in_json(text))


def is_prose(text: str) -> bool:
    """Whether it is words, and not opaque data: base64, a signature."""
    return " " in text


def texts_in_json(text: str) -> Iterator[str]:
    """Each text in JSON text as it reads, names too; what is no JSON, as it stands."""
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
    """`mark` in place of what begins with `begin` and goes on as `whole` does, as far as it does. Linear in the text."""
    kept, at = [], 0
    while (found := text.find(begin, at)) >= 0:
        kept.append(text[at:found])
        pairs = enumerate(zip(text[found : found + len(whole)], whole, strict=False))
        at = found + next((n for n, (a, b) in pairs if a != b), min(len(whole), len(text) - found))
    return mark.join([*kept, text[at:]])


def redact_json(text: str, redact: Callable[[str], str]) -> str:
    """JSON text with each text in it redacted as it reads: escaped, a line's beginning does not look like one.

    It stays to the letter where nothing is taken out; what is no JSON is redacted as it stands.
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
    """Whether a variable does, by its name or as a password inside a URL; settings in which keys may be written do."""
    if name.upper() in _SETTINGS_WITH_KEYS:
        return True
    if name.upper().endswith("_PROXY"):
        return False
    return is_secret_name(name) or _URL_PASSWORD.search(value) is not None


def _escaped(text: str) -> set[str]:
    """`text` as JSON and URLs spell it."""
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, errors="replace")}


def _spellings(path: Path) -> set[str]:
    """How texts may write a folder; none for the root of the file system, which is everywhere."""
    spellings = {str(path.absolute()), str(path.resolve())}
    spellings |= {place.removeprefix("/private") for place in spellings}  # macOS: /tmp is /private/tmp
    spellings |= {form for place in spellings for form in _escaped(place)}
    return {place for place in spellings if len(place) > 1}
