"""What a search engine finds: DuckDuckGo through ddgs, where that is installed, or any engine that answers GET with JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

from kin_nb.core.config.keys import find_key
from kin_nb.core.llm.errors import reason_of
from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.urls import is_local, shown
from kin_nb.core.web.pages import clean

MOST_BYTES = 2_000_000
_LIBRARY = "ddgs"
_LIBRARY_SECONDS = 10
_LONGEST_TEXT, _LONGEST_URL = 500, 2_048
_DEEPEST, _MOST_PLACES = 4, 1_000
_URLS, _TITLES, _SNIPPETS = ("url", "link", "href"), ("title", "name"), ("description", "snippet", "content", "body")
_WEB = ("web", "webpages", "organic", "organic_results", "results", "items")
"""Field names under which engines put web results, the most certain first; other fields may hold videos, news, ads."""
_REFUSED, _TOO_MANY = {401, 403}, 429

_Path = tuple[str, ...]


class SearchHit(BaseModel):
    title: str
    url: str
    snippet: str = ""


class SearchSettings(BaseModel):
    """`url`: an engine's address with {query} and, if it takes one, {count}; "" for DuckDuckGo.

    `api_key_env` names the variable that holds its key, sent as `api_key_header: api_key_format`.
    """

    url: str = ""
    api_key_env: str = ""
    api_key_header: str = "Authorization"
    api_key_format: str = Field(default="Bearer {token}")


def is_usable(settings: BaseToolConfig | None) -> bool:
    """Whether there is something to search with: an engine in `[tools.web_search]`, or the library. Imports nothing."""
    given = (settings.model_extra or {}).get("url", getattr(settings, "url", "")) if settings else ""
    return bool(given) or find_spec(_LIBRARY) is not None


def engine_site(settings: SearchSettings) -> str:
    """Return the site that gets the queries, `https://HOST`, as far as the engine's address shows it."""
    if not settings.url:
        return "https://duckduckgo.com"
    scheme, _, rest = settings.url.partition("://")
    return f"{scheme}://{re.split(r'[/?#]', rest, maxsplit=1)[0].rpartition('@')[2]}"


async def search(query: str, count: int, settings: SearchSettings) -> list[SearchHit]:
    """Return at most `count` hits. Raises ToolError with a text that says whether to try again. The caller bounds the time."""
    if settings.url:
        results = _results(await _ask(query, count, settings), settings.url)
    else:
        results = await asyncio.to_thread(_duckduckgo, query, count)
    found = (_found(result) for result in results)
    return [each for each in found if each is not None][:count]


def _duckduckgo(query: str, count: int) -> list[Any]:
    try:
        from ddgs import DDGS  # noqa: PLC0415  (an extra, and slow to import)
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException  # noqa: PLC0415
    except ImportError as error:
        raise ToolError(
            "There is nothing to search with: pip install kin-nb[search], or set url in [tools.web_search]."
        ) from error
    try:
        return list(DDGS(timeout=_LIBRARY_SECONDS).text(query, max_results=count, backend="duckduckgo"))
    except RatelimitException as error:
        raise ToolError("DuckDuckGo wants fewer searches from here. Wait a minute before the next one.") from error
    except TimeoutException as error:
        raise ToolError("DuckDuckGo did not answer in time. Try again later.") from error
    except DDGSException as error:
        if "No results found" in str(error):  # ddgs's text for no results, also when it was blocked
            return []
        why = "the network is not available" if "dns" in str(error).lower() else "it refused, or the network is down"
        raise ToolError(f"DuckDuckGo was not reached: {why}.") from error


async def _ask(query: str, count: int, settings: SearchSettings) -> Any:
    """Return the engine's answer. Errors contain neither the query nor the key."""
    import httpx  # noqa: PLC0415  (first use)

    where = shown(settings.url)
    url = settings.url.replace("{query}", quote(query, safe="")).replace("{count}", str(count))
    headers = {"accept": "application/json", **_key_header(settings, where)}
    try:
        async with (
            httpx.AsyncClient(trust_env=not is_local(settings.url)) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            _check(response.status_code, where, settings.api_key_env)
            body = bytearray()
            async for piece in response.aiter_bytes(65_536):
                body += piece
                if len(body) > MOST_BYTES:
                    raise ToolError(f"The search at {where} answers more than {MOST_BYTES:,} bytes.")
    except (httpx.LocalProtocolError, UnicodeError):  # their text shows the header, and with it the key
        raise ToolError(f"The search at {where} was not reached: its key cannot be sent as a header.") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        raise ToolError(f"The search at {where} was not reached: {reason_of(error)}.") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"The search at {where} does not answer with JSON; check url in [tools.web_search].") from error


def _key_header(settings: SearchSettings, where: str) -> dict[str, str]:
    if not settings.api_key_env:
        return {}
    key = find_key(settings.api_key_env)
    if not key:
        raise ToolError(f"No key for the search at {where}: set {settings.api_key_env}.")
    return {settings.api_key_header: settings.api_key_format.replace("{token}", key)}


def _check(status: int, where: str, variable: str) -> None:
    if status in _REFUSED:
        advice = f"check the key in {variable}" if variable else "name its key's variable: api_key_env"
        raise ToolError(f"The search at {where} refuses (HTTP {status}); {advice}.")
    if status == _TOO_MANY:
        raise ToolError(f"The search at {where} wants fewer requests (HTTP 429). Wait a minute before the next one.")
    if status >= 300 or status < 200:  # noqa: PLR2004  (HTTP: 2xx is an answer)
        raise ToolError(f"The search at {where} answers HTTP {status}; check url in [tools.web_search].")


def _results(answer: Any, url: str) -> list[Any]:
    """Return the list of web results in an engine's answer. Raises ToolError when the answer has no list at all."""
    lists = list(_lists(answer))
    if not lists:
        raise ToolError(
            f"The search at {shown(url)} answers without a list of results; check url in [tools.web_search]."
        )
    return max(lists, key=_rank)[1]


def _rank(place: tuple[_Path, list[Any]]) -> tuple[bool, int, int, int]:
    """Rank a list, higher is likelier: whether it holds results; the best name on its path, then few other names; its length."""
    path, entries = place
    names = [_WEB.index(name) if name in _WEB else len(_WEB) for name in path]
    best = min(names, default=len(_WEB))
    others = names.count(len(_WEB)) if best < len(_WEB) else 0
    found = sum(1 for entry in entries if _found(entry))
    return found > 0, -best, -others, found


def _lists(answer: Any) -> Iterator[tuple[_Path, list[Any]]]:
    """Yield each list with the field names that lead to it, in lower case; nearest first, within bounds."""
    places: deque[tuple[_Path, Any]] = deque([((), answer)])
    for _ in range(_MOST_PLACES):
        if not places:
            return
        path, value = places.popleft()
        if isinstance(value, list):
            yield path, value
        elif isinstance(value, dict) and len(path) < _DEEPEST:
            places.extend(((*path, name.lower()), item) for name, item in value.items())


def _found(entry: Any) -> SearchHit | None:
    """Read one result; None when it has no title or no web address."""
    if not isinstance(entry, dict):
        return None
    url, title, snippet = (_text(entry, names) for names in (_URLS, _TITLES, _SNIPPETS))
    if not title or not url.startswith(("http://", "https://")) or len(url) > _LONGEST_URL:
        return None
    return SearchHit(title=title[:_LONGEST_TEXT], url=url.replace(" ", "%20"), snippet=snippet[:_LONGEST_TEXT])


def _text(entry: dict[str, Any], names: tuple[str, ...]) -> str:
    value = next((entry[name] for name in names if isinstance(entry.get(name), str)), "")
    return " ".join(clean(value).split())
