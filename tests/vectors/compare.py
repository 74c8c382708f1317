"""When two answers are the same."""

from typing import Any


def same(expected: Any, actual: Any, place: str = "") -> str | None:
    """The first difference in words, or None. Equal as JSON, so 1 equals 1.0; a boolean equals no number."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            if key not in actual or key not in expected:
                return f"{place}/{key}: {'missing' if key not in actual else 'unexpected'} in {actual!r}"
            if found := same(expected[key], actual[key], f"{place}/{key}"):
                return found
        return None
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        for i, (a, b) in enumerate(zip(expected, actual, strict=False)):
            if found := same(a, b, f"{place}/{i}"):
                return found
        return (
            None if len(expected) == len(actual) else f"{place}: {len(expected)} items, got {len(actual)}: {actual!r}"
        )
    if isinstance(expected, bool) is isinstance(actual, bool) and expected == actual:
        return None
    return f"{place}: expected {expected!r}, got {actual!r}"


def clean_prompt(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A prompt without what is never sent or only bookkeeping."""
    out = []
    for message in prompt:
        message = {key: value for key, value in _clean_options(message).items() if key != "id"}
        if isinstance(message["content"], list):
            message["content"] = [
                {key: value for key, value in _clean_options(part).items() if key != "pending"}
                for part in message["content"]
            ]
        out.append(message)
    return out


def _clean_options(value: dict[str, Any]) -> dict[str, Any]:
    options = value.get("providerOptions")
    if not isinstance(options, dict) or not isinstance(options.get("mastra"), dict):
        return value
    mastra = {k: v for k, v in options["mastra"].items() if k not in ("createdAt", "orphanResult")}
    options = {**options, "mastra": mastra} if mastra else {k: v for k, v in options.items() if k != "mastra"}
    rest = {key: item for key, item in value.items() if key != "providerOptions"}
    return {**rest, "providerOptions": options} if options else rest


def compare_messages(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> str | None:
    if len(expected) != len(actual):
        return f"{len(expected)} messages, got {len(actual)}: {actual!r}"
    for i, (a, b) in enumerate(zip(expected, actual, strict=True)):
        if "parts" in a:
            flat = {**b, "parts": b["content"]["parts"]} if "content" in b else b
            b = {key: flat.get(key) for key in a}
        a, b = dict(a), dict(b)
        if "createdAt" not in a:
            b.pop("createdAt", None)
        for message in (a, b):
            holder = message if "parts" in message else message.get("content")
            if isinstance(holder, dict) and isinstance(holder.get("parts"), list):
                parts = [{k: v for k, v in part.items() if k != "createdAt"} for part in holder["parts"]]
                if holder is message:
                    message["parts"] = parts
                else:
                    message["content"] = {**holder, "parts": parts}
        if found := same(a, b, f"/{i}"):
            return found
    return None
