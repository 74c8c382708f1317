"""Wait or give up? A decision about a failed call; nothing here sleeps.

Source: the processor specification's section 3, in its newer order: an entry's own policy beats the provider's flag.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from memory.errors import InvalidOption
from memory.processors.base import ProcessAPIErrorArgs, Retry

Match = Callable[[Any], Any]
Delay = float | Callable[[ProcessAPIErrorArgs], Any]


class ErrorMatcher(Struct, frozen=True, kw_only=True):
    """A predicate with its own budget and delay; what it leaves out falls back to the processor's."""

    match: Match
    max_retries: float | None = None
    delay_ms: Delay | None = None
    on_retry: Callable[[ProcessAPIErrorArgs, float], None] | None = None
    name: str = ""


class _Policy(Struct, frozen=True):
    matched: str
    max_retries: float | None = None
    delay_ms: Delay | None = None
    on_retry: Callable[[ProcessAPIErrorArgs, float], None] | None = None
    is_matcher: bool = False


_OPENAI_CODES = [
    "rate_limit",
    "server_error",
    "internal_error",
    "timeout",
    "temporarily_unavailable",
    "service_unavailable",
    "overloaded",
]


def is_retryable_openai_responses_stream_error(error: Any) -> bool:
    """Whether an OpenAI Responses stream chunk (`error` or `response.failed`) names a transient failure."""
    if not isinstance(error, Mapping):
        return False
    payload = error.get("error") if error.get("type") == "error" else None
    if error.get("type") == "response.failed" and isinstance(response := error.get("response"), Mapping):
        payload = response.get("error")
    if not isinstance(payload, Mapping):
        return False
    code = payload.get("code")
    if not isinstance(code, str):
        code = payload.get("type")
    if isinstance(code, str) and any(known in code.lower() for known in _OPENAI_CODES):
        return True
    message = payload.get("message")
    return isinstance(message, str) and "you can retry your request" in message.lower()


def is_bad_request_error(error: Any) -> bool:
    """Whether the error carries `status_code` exactly 400 (`status` is not looked at). An opt-in matcher."""
    return _attribute(error, "status_code", "statusCode") == 400 and not isinstance(
        _attribute(error, "status_code", "statusCode"), bool
    )


_DROPPED_CODES = ("ECONNRESET", "EPIPE")
_DROPPED_TEXTS = ("econnreset", "socket hang up", "other side closed")


def is_dropped_connection(error: Any) -> bool:
    """Whether the connection broke: codes ECONNRESET and EPIPE, or the words that clients use for it. Opt-in."""
    for name in ("code", "error_code"):
        code = _attribute(error, name)
        if isinstance(code, str) and code.upper() in _DROPPED_CODES:
            return True
    message = _message(error)
    return any(text in message.lower() for text in _DROPPED_TEXTS)


class StreamErrorRetryProcessor:
    """Asks for another attempt after transient failures. Goes into the error processors; never edits messages.

    `max_retries` (default 1): retries while `retry_count < max_retries`. `matchers`: predicates or `ErrorMatcher`s,
    tried after the built-in OpenAI matcher, first hit wins. `retry_unknown_errors`: also what nothing matches, but
    never a known authorisation failure. `delay_ms`: a number, or a function of the hook's arguments (an awaitable
    answer is run to its end). `max_retry_after_ms` caps only the wait the provider asks for.
    Raises InvalidOption naming the option.
    """

    id = "stream-error-retry-processor"
    name = "Stream Error Retry Processor"

    def __init__(
        self,
        *,
        max_retries: float = 1,
        matchers: Sequence[Match | ErrorMatcher] = (),
        retry_unknown_errors: bool = False,
        delay_ms: Delay | None = None,
        max_retry_after_ms: float = 30_000,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.max_retries = _count(max_retries, "max_retries")
        if not isinstance(matchers, list | tuple):
            raise InvalidOption(f"matchers: expected a list, got {matchers!r}", field="matchers")
        self.matchers = tuple(_entry(matcher, i) for i, matcher in enumerate(matchers))
        if not isinstance(retry_unknown_errors, bool):
            raise InvalidOption("retry_unknown_errors: expected true or false", field="retry_unknown_errors")
        self.retry_unknown_errors = retry_unknown_errors
        self.delay_ms = _delay(delay_ms, "delay_ms")
        if isinstance(max_retry_after_ms, bool) or not isinstance(max_retry_after_ms, int | float):
            message = f"max_retry_after_ms: expected milliseconds, got {max_retry_after_ms!r}"
            raise InvalidOption(message, field="max_retry_after_ms")
        self.max_retry_after_ms = _clamped(max_retry_after_ms)
        self._clock = clock

    def process_api_error(self, args: ProcessAPIErrorArgs) -> Retry | None:
        """Another attempt with its delay, or None. Raises what a matcher or delay function raises."""
        policy = self._policy(args.error)
        if policy is None and self.retry_unknown_errors and not _is_authorisation_failure(args.error):
            policy = _Policy("unknown error", is_matcher=True)
        if policy is None:
            return None
        limit = self.max_retries if policy.max_retries is None else policy.max_retries
        if args.retry_count >= limit:
            return None
        own = _evaluated(self.delay_ms if policy.delay_ms is None else policy.delay_ms, args)
        wanted = retry_after_ms(args.error, self._clock())
        granted = min(wanted, self.max_retry_after_ms) if wanted is not None else 0.0
        delay = max(own, granted)
        if policy.on_retry is not None:
            policy.on_retry(args, delay)
        return Retry(
            delay_ms=delay,
            reason=_reason(policy.matched, own, wanted, granted),
            matched=policy.matched,
            wanted_ms=wanted,
            allows_same_body=policy.is_matcher,
        )

    def _policy(self, error: Any) -> _Policy | None:
        """The first match from the outermost error inwards; at each error the entries, then the provider's flag."""
        for candidate in _chain(error):
            if is_retryable_openai_responses_stream_error(candidate):
                return _Policy("OpenAI stream error")
            for entry in self.matchers:
                if _settled(entry.match(candidate)):
                    return _Policy(entry.name, entry.max_retries, entry.delay_ms, entry.on_retry, is_matcher=True)
            if _attribute(candidate, "is_retryable", "isRetryable") is True:
                return _Policy("the provider's error says that it can be retried")
        return None


def _reason(matched: str, own: float, wanted: float | None, granted: float) -> str:
    words = f"Matched: {matched}."
    if wanted is None:
        return f"{words} The provider asked for no wait; our own delay is {own / 1000:g} s."
    if granted < wanted:
        words += f" The provider asked for {wanted / 1000:g} s; the cap allows {granted / 1000:g} s."
    else:
        words += f" The provider asked for {wanted / 1000:g} s."
    return f"{words} Our own delay is {own / 1000:g} s; the longer one counts."


# Options


def _count(value: Any, option: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidOption(f"{option}: expected a number, got {value!r}", field=option)
    return value


def _delay(value: Any, option: str) -> Delay | None:
    if value is None:
        return None
    if not callable(value) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidOption(f"{option}: expected milliseconds or a function, got {value!r}", field=option)
    delay: Delay = value
    return delay


def _entry(matcher: Any, index: int) -> ErrorMatcher:
    place = f"matchers[{index}]"
    if isinstance(matcher, ErrorMatcher):
        if matcher.max_retries is not None:
            _count(matcher.max_retries, f"{place}.max_retries")
        _delay(matcher.delay_ms, f"{place}.delay_ms")
        return (
            matcher
            if matcher.name
            else ErrorMatcher(
                match=matcher.match,
                max_retries=matcher.max_retries,
                delay_ms=matcher.delay_ms,
                on_retry=matcher.on_retry,
                name=_name(matcher.match, index),
            )
        )
    if callable(matcher):
        return ErrorMatcher(match=matcher, name=_name(matcher, index))
    raise InvalidOption(f"{place}: expected a function or an ErrorMatcher, got {matcher!r}", field=place)


def _name(match: Match, index: int) -> str:
    name = getattr(match, "__name__", "")
    return f"matcher {name if name and name != '<lambda>' else index + 1}"


def _clamped(value: Any) -> float:
    """Milliseconds that are finite and positive, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def _evaluated(delay: Delay | None, args: ProcessAPIErrorArgs) -> float:
    return _clamped(_settled(delay(args)) if callable(delay) else delay)


def _settled(value: Any) -> Any:
    """The value, an awaitable run to its end: in a thread of its own where this one runs an event loop already."""
    if not inspect.isawaitable(value):
        return value

    async def whole() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, whole()).result()


# Looking into errors


def _attribute(error: Any, *names: str) -> Any:
    for name in names:
        value = error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)
        if value is not None:
            return value
    return None


def _message(error: Any) -> str:
    value = _attribute(error, "message")
    if isinstance(value, str):
        return value
    return str(error) if isinstance(error, BaseException) else ""


def cause_of(error: Any) -> Any:
    """What an error says caused it: `cause`, else the exception it was raised from."""
    cause = _attribute(error, "cause")
    if cause is None and isinstance(error, BaseException):
        cause = error.__cause__
    return cause


def _chain(error: Any) -> Iterator[Any]:
    seen: dict[int, Any] = {}  # holds what it has seen: the id of something gone may come again
    while True:
        if id(error) in seen:
            return
        seen[id(error)] = error
        yield error
        error = cause_of(error)
        if error is None:
            return


_AUTH_CODES = {"access_denied", "authentication_error", "forbidden", "invalid_api_key", "permission_denied"}


def _is_authorisation_failure(error: Any) -> bool:
    """401, 403 or a known code anywhere in the error, its data, its body or its causes."""
    seen: dict[int, Any] = {}
    waiting = [error]
    while waiting:
        value = waiting.pop()
        if value is None or isinstance(value, str | int | float | bool) or id(value) in seen:
            continue
        seen[id(value)] = value
        status = _attribute(value, "status_code", "statusCode")
        if status is None:
            status = _attribute(value, "status")
        if status in (401, 403) and not isinstance(status, str):
            return True
        code = _attribute(value, "code")
        if not isinstance(code, str):
            code = _attribute(value, "type")
        own_code = _attribute(value, "error_code")
        for text in (code, own_code):
            if isinstance(text, str) and text.strip().lower() in _AUTH_CODES:
                return True
        waiting += [_attribute(value, "error"), _attribute(value, "data"), cause_of(value)]
        body = _attribute(value, "response_body", "responseBody")
        if isinstance(body, str):
            try:
                waiting.append(json.loads(body))
            except (ValueError, RecursionError):
                continue
    return False


_DIGITS = re.compile(r"[0-9]+")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY, _LONG_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH, _TIME = f"(?P<month>{'|'.join(_MONTHS)})", "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_HTTP_DATES = (
    re.compile(f"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(f"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(f"{_DAY} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
"""The three forms of RFC 9110: its own, that of RFC 850, that of C's asctime."""


def retry_after_ms(error: Any, now: datetime) -> float | None:
    """The wait the provider asked for, from the outermost error inwards; None when none is valid.

    `retry_after_ms` of the error itself, else its headers: `retry-after-ms` in milliseconds, `retry-after` in whole
    seconds or as an HTTP date later than `now`. Zero is valid.
    """
    for candidate in _chain(error):
        own = _attribute(candidate, "retry_after_ms", "retryAfterMs")
        if isinstance(own, int | float) and not isinstance(own, bool) and math.isfinite(own) and own >= 0:
            return float(own)
        headers = _attribute(candidate, "response_headers", "responseHeaders")
        if isinstance(headers, Mapping):
            wait = _header_wait(headers, now)
            if wait is not None:
                return wait
    return None


def _header_wait(headers: Mapping[Any, Any], now: datetime) -> float | None:
    values = {str(name).lower(): value for name, value in headers.items()}
    exact, value = values.get("retry-after-ms"), values.get("retry-after")
    if isinstance(exact, str) and _DIGITS.fullmatch(exact.strip()):
        return float(exact.strip())
    if not isinstance(value, str):
        return None
    value = value.strip()
    if _DIGITS.fullmatch(value):
        return float(value) * 1000
    at = _http_date(value, now)
    return (at - now).total_seconds() * 1000 if at is not None and at > now else None


def _http_date(text: str, now: datetime) -> datetime | None:
    """The instant of an HTTP date. A year of two digits more than 50 years ahead is one of the past century."""
    found = next((found for form in _HTTP_DATES if (found := form.fullmatch(text))), None)
    if found is None:
        return None
    numbers = {name: int(found[name]) for name in ("day", "year", "hour", "minute", "second")}
    month = _MONTHS.index(found["month"]) + 1
    if len(found["year"]) == 2:
        numbers["year"] += now.year - now.year % 100
        if numbers["year"] > now.year + 50:
            numbers["year"] -= 100
    try:
        return datetime(**numbers, month=month, tzinfo=UTC)
    except ValueError:
        return None
