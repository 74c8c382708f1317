"""What an error answer of any provider means: its class, whether to try again, and after how long.

The order of the decision and the literals are those of the providers' own documents and of public reports: unwrap,
fatal, context overflow, transient, the rest. Whether a 400 is about the history is decided later, by the rules' own
patterns; here it is `bad-request`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from memory.errors import InvalidInput, ProviderError
from memory.messages.halves import read_mended

_DEPTH = 8
_SHOWN = 4_000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Codes and types, lower case, as they stand anywhere in the body.

_AUTHENTICATION = _words(
    "authentication_error permission_error permission_denied unauthenticated invalid_api_key "
    "invalid_authentication_error accessdeniedexception unrecognizedclientexception "
    "expiredtokenexception"
)
_QUOTA = _words(
    "insufficient_quota billing_error billing_hard_limit_reached billing_not_active enforced_spend_limit_reached "
    "exceeded_current_quota_error insufficient_balance arrearage servicequotaexceededexception 1113 1008"
)
_CONTENT_FILTER = _words("content_filter content_policy_violation responsibleaipolicyviolation data_inspection_failed")
_OVERFLOW_CODES = _words("context_length_exceeded request_too_large model_context_window_exceeded")
_OVERLOADED = _words(
    "overloaded_error engine_overloaded_error queue_exceeded unavailable serviceunavailableexception "
    "modelnotreadyexception 1305"
)
_RATE = _words(
    "rate_limit_error rate_limit_exceeded rate_limited rate_limit_reached_error too_many_requests_error "
    "too_many_requests throttlingexception resource_exhausted limit_requests 1300 1302 1303 1002"
) | {"some resource has been exhausted"}
_BAD_REQUEST = _words(
    "invalid_request_error invalid_argument validationexception extra_forbidden not_found_error model_not_found "
    "wrong_api_format 2013 3230 3240 3280 3001"
)

_QUOTA_TEXT = re.compile(
    r"credit balance is too low|insufficient (?:balance|credit|fund)|"
    r"exceeded your current quota, please check your plan|"
    r"spend(?:ing)? limit|(?:out of|no|used all(?: available)?|run out of) credits|purchase (?:more )?credits",
    re.IGNORECASE,
)
_PER_DAY = re.compile(r"(?:tokens|requests) per day|\bper day\b|PerDay|\b[TR]PD\b")
_FILTER_TEXT = re.compile(r"content management policy|content filter(?:ing)? policy", re.IGNORECASE)
_RATE_TEXT = re.compile(
    r"rate[ -]?limit|per minute request limit|too many requests|limited to [\d,]+ API calls|"
    r"please wait (?:and try|before trying) again",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large for model", re.IGNORECASE)
_REQUESTED = re.compile(r"Limit ([\d,]+)(?:, Used [\d,]+)?, Requested ([\d,]+)")
_NOT_OVERFLOW = re.compile(
    r"rate limit|too many requests|please wait before trying again|tokens per (?:min|minute|day)|\bTPM\b|"
    r"string too long",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt is too long",
            r"input is too long for requested model",
            r"maximum context length is [\d,]+ tokens|context_length_exceeded",
            r"exceeds (?:the|this model's|the model's) context window",
            r"exceeds (?:the )?(?:model'?s )?maximum (?:context length|allowed input length)",
            r"input token count.{0,30}exceeds the maximum",
            r"maximum prompt length is \d+",
            r"reduce the length of the messages or completion",
            r"too large for model with \d+ maximum context length",
            r"is longer than the model'?s context length",
            r"Range of input length should be",
            r"Prompt exceeds max length",
            r"context window exceeds limit",
            r"exceeded model token limit",
            r"your prompt contains at least \d+ input tokens",
            r"exceeds the available context size|greater than the context length",
            r"prompt too long; exceeded (?:max )?context length",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)


class _Found(Struct):
    """What unwrapping a body brought to light; the innermost wins."""

    message: str = ""
    codes: list[str] = []
    """Codes and types, outermost first."""
    status: int | None = None
    retry_delay: str = ""
    request_id: str = ""


class _Verdict(Struct, frozen=True):
    error_class: str
    is_retryable: bool
    status: int


def classify(
    provider: str, status: int, headers: Mapping[str, str], body: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer of any protocol means. `provider` stands in the message when the body says nothing.

    `now` is what an HTTP date is counted from. The error's status is the one found by unwrapping, where there is one.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    data = _json(body)
    found = _Found()
    _walk(data if data is not None else body, found, 0)
    if not found.message:
        found.message = _without_message(provider, status, body)
    wait = retry_after_ms(lower, found.retry_delay, found.message, now or datetime.now(UTC))
    verdict = _verdict(status, found, wait is not None, lower.get("x-should-retry", ""))
    return ProviderError(
        found.message,
        status=verdict.status,
        error_class=verdict.error_class,
        is_retryable=verdict.is_retryable,
        retry_after_ms=wait if verdict.is_retryable or verdict.error_class == "quota" else None,
        response_headers={name: value for name, value in lower.items() if name != "set-cookie"},
        response_body=body,
        request_id=_request_id(lower) or found.request_id,
        error_code=_error_code(found.codes),
        data=data,
    )


def _verdict(status: int, found: _Found, has_wait: bool, should_retry: str) -> _Verdict:
    codes = {code.lower() for code in found.codes}
    inner = found.status or status
    text = found.message[:_SHOWN]
    error_class, is_retryable = _class_of(inner, codes, text, has_wait)
    if error_class == "rate-limit" and not 400 < inner < 500:
        inner = 429
    if should_retry == "false":
        is_retryable = False
    elif should_retry == "true" and error_class == "transient":
        is_retryable = True
    return _Verdict(error_class, is_retryable, inner)


def _class_of(status: int, codes: set[str], text: str, has_wait: bool) -> tuple[str, bool]:
    is_limit = status == 429 or bool(codes & _RATE)
    # Inside a stream some say it in words alone: there is no status then, and no code.
    is_limit = is_limit or (status < 400 and not codes and _RATE_TEXT.search(text) is not None)
    # Fatal
    if codes & _QUOTA or status == 402:
        return "quota", False
    if _PER_DAY.search(text) or any("perday" in code for code in codes):
        if is_limit:
            return "quota", has_wait
    elif _QUOTA_TEXT.search(text) and not (has_wait and "resource_exhausted" in codes):
        # Gemini words every limit as a quota; the delay it sends tells one that passes from one that doesn't.
        return "quota", False
    if codes & _CONTENT_FILTER or _FILTER_TEXT.search(text):
        return "content-filter", False
    if status in (401, 403) or codes & _AUTHENTICATION:
        return "authentication", False
    # Too long
    if codes & _OVERFLOW_CODES or (_OVERFLOW.search(text) and not _NOT_OVERFLOW.search(text)):
        return "context-length", False
    if is_limit or status == 413:
        if _TOO_LARGE.search(text) or _asks_too_much(text):
            return "rate-limit", False
        if status == 413 and not codes & _RATE:
            return "context-length", False
    # Transient
    if status == 529 or codes & _OVERLOADED:
        return "overloaded", True
    if is_limit:
        return "rate-limit", True
    if status in (408, 409, 425):
        return "transient", True
    if status == 424:
        return "transient", False
    if status >= 500:
        return "transient", True
    # The rest
    if status >= 400 or codes & _BAD_REQUEST:
        return "bad-request", False
    return "transient", True


def _asks_too_much(text: str) -> bool:
    """Whether one request asks for more than the whole limit: waiting can't help."""
    numbers = _REQUESTED.search(text)
    return numbers is not None and int(numbers[2].replace(",", "")) > int(numbers[1].replace(",", ""))


def _error_code(codes: list[str]) -> str:
    """The most telling code: the innermost that is no bare number, else the innermost."""
    return next((code for code in reversed(codes) if not code.isdigit()), codes[-1] if codes else "")


def _request_id(headers: Mapping[str, str]) -> str:
    names = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "x-generation-id")
    return next((headers[name] for name in names if headers.get(name)), "")


def _without_message(provider: str, status: int, body: str) -> str:
    text = body.strip()
    if not text:
        return f"{provider} answered {status} without a body"
    if _HTML.match(text):
        return f"{provider} answered {status} with an HTML page"
    return text[:_SHOWN]


# Unwrapping


def _json(text: str) -> Any:
    """The JSON value of a text, or None."""
    try:
        return read_mended(text)
    except InvalidInput:
        return None


def _inner_json(text: str) -> Any:
    """The first JSON object or list inside a text: after a prefix, as Python bytes, or escaped once more."""
    if literal := re.search(r"""\bb(['"])(.*)\1""", text, re.DOTALL):
        try:
            shown = ast.literal_eval(literal[0])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            shown = b""
        if isinstance(shown, bytes) and shown:
            text = shown.decode("utf-8", "replace")
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    piece = text[start : end + 1]
    value = _json(piece)
    if value is None and '\\"' in piece and isinstance(unescaped := _json(f'"{piece}"'), str):
        value = _json(unescaped)
    return value


def _walk(value: Any, found: _Found, depth: int) -> None:
    if depth > _DEPTH:
        return
    if isinstance(value, str):
        _walk_text(value, found, depth)
    elif isinstance(value, list):
        _walk_list(value, found, depth)
    elif isinstance(value, Mapping):
        _walk_object(value, found, depth)


def _walk_text(text: str, found: _Found, depth: int) -> None:
    if not text.strip() or _HTML.match(text):
        return
    if len(text) <= 100_000 and isinstance(inner := _inner_json(text), Mapping) and _is_error(inner):
        before = found.message
        found.message = ""
        _walk(inner, found, depth + 1)
        if found.message:
            return
        found.message = before
    found.message = text


def _is_error(value: Mapping[str, Any]) -> bool:
    """Whether an object inside a text is an error and not, say, the arguments that a message quotes."""
    return any(isinstance(value.get(key), dict) for key in ("error", "base_resp")) or (
        isinstance(value.get("message") or value.get("error"), str)
        and any(key in value for key in ("type", "code", "status", "__type", "error", "object"))
    )


def _walk_list(items: list[Any], found: _Found, depth: int) -> None:
    """A list-wrapped body, or the validation errors of one: `[{"type", "loc": [...], "msg"}]`."""
    lines = []
    for item in items[:20]:
        if isinstance(item, Mapping) and isinstance(item.get("msg"), str):
            at = item.get("loc")
            place = ".".join(map(str, at)) if isinstance(at, list) else at if isinstance(at, str) else ""
            lines.append(f"{place}: {item['msg']}" if place else item["msg"])
            _add_code(found, item.get("type"))
    if lines:
        found.message = "; ".join(lines)
        return
    for item in items[:1]:
        _walk(item, found, depth + 1)


def _walk_object(value: Mapping[str, Any], found: _Found, depth: int) -> None:
    for key in ("__type", "type", "status", "code", "error_code"):
        _add_code(found, value.get(key))
    for key in ("code", "status", "status_code"):
        _add_status(found, value.get(key))
    if isinstance(value.get("request_id"), str):
        found.request_id = value["request_id"]
    said = next((value[key] for key in ("message", "Message", "msg", "errorMessage") if value.get(key)), None)
    _walk(said, found, depth + 1)
    _walk_details(value.get("details"), found)
    base = value.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code"):
        _add_code(found, base["status_code"])
        _walk(base.get("status_msg"), found, depth + 1)
    for key in ("detail", "errors", "innererror", "response", "responseBody", "error"):
        inner = value.get(key)
        # A bare word beside a message (`"error": "Bad Request"`) says less than the message.
        if not (said and isinstance(inner, str)):
            _walk(inner, found, depth + 1)
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    _walk((_json(raw) if isinstance(raw, str) else None) or raw, found, depth + 1)


def _walk_details(details: Any, found: _Found) -> None:
    """`details` of an error: Anthropic's object with a code, or Google's list of typed ones."""
    if isinstance(details, Mapping):
        _add_code(found, details.get("error_code"))
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, Mapping):
            continue
        if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo") and isinstance(detail.get("retryDelay"), str):
            found.retry_delay = detail["retryDelay"]
        for violation in detail.get("violations") or ():
            if isinstance(violation, Mapping):
                _add_code(found, violation.get("quotaId"))


def _add_code(found: _Found, code: Any) -> None:
    if isinstance(code, int) and not isinstance(code, bool):
        code = str(code)
    if isinstance(code, str) and code and code != "error" and len(code) <= 200:
        found.codes.append(code.rpartition("#")[2])


def _add_status(found: _Found, code: Any) -> None:
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599:
        found.status = code


# Waits

_UNITS_MS = {"h": 3_600_000.0, "m": 60_000.0, "s": 1000.0, "ms": 1.0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STEP = r"\d+(?:\.\d+)?\s*(?:milliseconds?|ms|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_STEPS = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_DURATION = re.compile(rf"(?:{_STEP}\s*)+", re.IGNORECASE)
_IN_TEXT = re.compile(rf"(?:try again|retry)\s+(?:in|after)\s+((?:{_STEP}\s*)+)", re.IGNORECASE)


def retry_after_ms(headers: Mapping[str, str], retry_delay: str, message: str, now: datetime) -> float | None:
    """The wait a provider asks for, in milliseconds, from wherever it put it; None when it names none.

    `headers` by lower-case name; `retry_delay` is Google's `retryDelay`. A limit's reset counts only where the limit
    is not known to have something left.
    """
    value = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(value):
        return float(value)
    value = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(value):
        return round(float(value) * 1000, 6)
    if value and (at := _http_date(value)) is not None:
        return _until(at, now)
    if retry_delay and (delay := _duration_ms(retry_delay)) is not None:
        return delay
    waits = [wait for name, value in headers.items() if (wait := _reset_ms(headers, name, value, now)) is not None]
    if waits:
        return max(waits)
    said = _IN_TEXT.search(message[:_SHOWN])
    return _steps_ms(said[1]) if said else None


def _reset_ms(headers: Mapping[str, str], name: str, value: str, now: datetime) -> float | None:
    if name.startswith("x-ratelimit-reset"):
        remaining = headers.get(name.replace("reset", "remaining", 1), "0")
    elif name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
        remaining = headers.get(f"{name.removesuffix('-reset')}-remaining", "0")
    else:
        return None
    if remaining.strip() not in ("0", "0.0", ""):
        return None
    value = value.strip()
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number > 1e9:  # an instant: seconds or milliseconds since 1970
            return max(0.0, (number if number > 1e11 else number * 1000) - now.timestamp() * 1000)
        return number * 1000
    if (delay := _duration_ms(value)) is not None:
        return delay
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return _until(at, now)


def _duration_ms(value: str) -> float | None:
    """Milliseconds of a duration such as `2m59.56s`, `20ms` or `45.837906927s`."""
    return _steps_ms(value) if _DURATION.fullmatch(value.strip()) else None


def _steps_ms(value: str) -> float:
    # Rounded to a nanosecond: 8.04 s are 8,040 ms, not what binary fractions make of it.
    return round(sum(float(number) * _unit(unit.lower()) for number, unit in _STEPS.findall(value)), 6)


def _unit(unit: str) -> float:
    return _UNITS_MS["ms" if unit.startswith(("ms", "milli")) else unit[0]]


def _http_date(value: str) -> datetime | None:
    try:
        return parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _until(at: datetime, now: datetime) -> float:
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds() * 1000)
