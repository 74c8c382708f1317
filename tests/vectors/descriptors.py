"""Descriptors of the case files turned into objects: errors, matchers, delays, custom rules, models, messages."""

import re
from datetime import UTC, datetime
from typing import Any

from memory.errors import ProviderError
from memory.messages.stored import StoredMessage
from memory.processors import CompatRule, ErrorMatcher

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOWN_KEYS = {
    "id", "processor", "hook", "options", "input", "expect", "why", "verified", "needs", "reference_bug",
    "reference_actual",
}  # fmt: skip


def only(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The value, which must not have other keys."""
    unknown = set(value) - set(keys)
    assert not unknown, f"nobody reads {unknown} of {value}"
    return value


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


# Errors


def build_error(value: dict[str, Any]) -> Any:
    kind = value["kind"]
    if kind == "object":
        return only(value, "kind", "value")["value"]
    if kind == "text":
        return only(value, "kind", "value")["value"]
    if kind == "api_call_error":
        only(
            value, "kind", "message", "statusCode", "isRetryable", "responseHeaders", "responseBody", "retryAfterMs",
            "cause", "data",
        )  # fmt: skip
        error: Any = ProviderError(
            value["message"],
            status=value["statusCode"],
            is_retryable=value.get("isRetryable"),
            response_headers=None,
            response_body=value.get("responseBody"),
            retry_after_ms=value.get("retryAfterMs"),
            data=value.get("data"),
        )
        if "responseHeaders" in value:
            error.response_headers = value["responseHeaders"]
    elif kind == "error":
        error = Exception(value["message"])
        for key, attribute in value.items():
            if key not in ("kind", "cause", "causeSelf"):
                setattr(error, snake(key), attribute)
    else:
        raise AssertionError(f"unknown kind of error {kind}")
    if value.get("causeSelf"):
        error.cause = error
    elif value.get("cause") is not None:
        error.cause = build_error(value["cause"])
    return error


# Matchers and delays


def attribute(error: Any, name: str) -> Any:
    return error.get(name) if isinstance(error, dict) else getattr(error, snake(name), None)


def build_matcher(value: dict[str, Any]) -> Any:
    only(value, "match", "value", "config", "maxRetries", "delayMs")
    kind, wanted = value["match"], value.get("value")

    def match(error: Any) -> bool:
        match kind:
            case "code-equals":
                code = attribute(error, "code")
                return isinstance(code, str) and code.lower() == wanted.lower()
            case "status-equals":
                return bool(attribute(error, "statusCode") == wanted)
            case "message-matches":
                message = attribute(error, "message")
                message = str(error) if message is None and isinstance(error, BaseException) else message
                return isinstance(message, str) and wanted.lower() in message.lower()
            case "always":
                return True
            case "throws":
                raise RuntimeError("matcher blew up")
        raise AssertionError(f"unknown matcher {kind}")

    if not value.get("config"):
        return match
    return ErrorMatcher(
        match=match,
        max_retries=number(value["maxRetries"]) if "maxRetries" in value else None,
        delay_ms=build_delay(value["delayMs"]) if "delayMs" in value else None,
    )


def number(value: Any) -> Any:
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def build_delay(value: Any) -> Any:
    if not isinstance(value, dict):
        return number(value)
    only(value, "fn", "base", "cap", "value")
    match value["fn"]:
        case "exponential":
            return lambda args: min(value["base"] * 2**args.retry_count, value["cap"])
        case "async-constant":

            async def constant(_: Any) -> Any:
                return value["value"]

            return constant
        case "throws":

            def throws(_: Any) -> Any:
                raise RuntimeError("delay blew up")

            return throws
    raise AssertionError(f"unknown delay {value}")


# Custom rules


def build_rule(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    only(value, "name", "errorPatterns", "fix", "applyToPrompt")
    return CompatRule(
        value.get("name"),
        error_patterns=[re.compile(pattern, re.I) for pattern in value.get("errorPatterns", ())],
        fix=_fix(value["fix"]) if "fix" in value else None,
        apply_to_prompt=_apply(value["applyToPrompt"]) if "applyToPrompt" in value else None,
    )


def _fix(op: dict[str, Any]) -> Any:
    def fix(messages: list[StoredMessage]) -> bool:
        match op["op"]:
            case "noop-true":
                return True
            case "noop-false":
                return False
            case "append-user-text":
                messages.append({"id": "added", "role": "user", "content": {"parts": [_text(op["text"])]}})
                return True
            case "drop-parts":
                dropped = False
                for message in messages:
                    parts = message["content"]["parts"]
                    kept = [part for part in parts if part.get("type") != op["type"]]
                    dropped |= len(kept) != len(parts)
                    message["content"]["parts"] = kept
                return dropped
        raise AssertionError(f"unknown op {op}")

    return fix


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _apply(op: dict[str, Any]) -> Any:
    def apply(prompt: list[dict[str, Any]], *, model: Any, messages: Any) -> Any:
        match op["op"]:
            case "unchanged" | "noop-false" | "noop-true":
                return None
            case "append-user-text":
                return [*prompt, {"role": "user", "content": [_text(op["text"])]}]
            case "drop-parts":
                out = []
                for message in prompt:
                    content = message["content"]
                    if isinstance(content, list):
                        content = [part for part in content if part["type"] != op["type"]]
                    out.append({**message, "content": content})
                return out if out != prompt else None
            case "count-reasoning":
                parts = [p for m in prompt if isinstance(m["content"], list) for p in m["content"]]
                count = sum(part["type"] == "reasoning" for part in parts)
                return [*prompt, {"role": "user", "content": [_text(f"reasoning parts seen: {count}")]}]
        raise AssertionError(f"unknown op {op}")

    return apply


def build_options(options: dict[str, Any]) -> dict[str, Any]:
    """Constructor options in Python's spelling, with their descriptors built."""
    out: dict[str, Any] = {}
    for key, value in options.items():
        if key == "matchers" and isinstance(value, list):
            value = [build_matcher(m) if isinstance(m, dict) and "match" in m else m for m in value]
        elif key == "delayMs":
            value = build_delay(value)
        elif key == "additionalRules":
            value = [build_rule(rule) for rule in value]
        elif value in ("NaN", "Infinity", "-Infinity"):
            value = number(value)
        out[snake(key)] = value
    return out


# Messages


def build_message(value: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A message and its source."""
    message = dict(value)
    source = message.pop("source", "memory")
    if "text" in message and "content" not in message:
        message["content"] = {"format": 2, "parts": [_text(message.pop("text"))]}
    elif "toolCallId" in message:
        invocation = {
            "state": "result", "toolCallId": message.pop("toolCallId"), "toolName": "f", "args": {}, "result": 1
        }  # fmt: skip
        message["content"] = {"format": 2, "parts": [{"type": "tool-invocation", "toolInvocation": invocation}]}
    return message, source
