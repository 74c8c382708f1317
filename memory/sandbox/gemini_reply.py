"""Answers of the Gemini API and of Vertex: text, calls without ids, thoughts, whole or as a stream of answers."""

from collections.abc import Iterator
from typing import Any

from memory.sandbox.answers import Answer, Tool, compose
from memory.sandbox.gemini_words import camelled, signature, version
from memory.sandbox.wire import made_id, pieces, to_json, token_count


def reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The answer of the Gemini API to a body `gemini.check` let pass."""
    return _reply(body, raw, "gemini")


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    return _events(reply(body, raw))


def vertex_reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The answer of Vertex, which adds the time."""
    return _reply(body, raw, "vertex") | {"createTime": "2026-01-01T00:00:00Z"}


def vertex_events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    return _events(vertex_reply(body, raw))


def _reply(body: dict[str, Any], raw: bytes, platform: str) -> dict[str, Any]:
    request = camelled(body)
    contents = [camelled(content) for content in _list(request["contents"])]
    texts = [_text(content) for content in contents if content.get("role") != "model"]
    calling = camelled(camelled(request.get("toolConfig") or {}).get("functionCallingConfig") or {})
    allowed = calling.get("allowedFunctionNames") or []
    tools = [tool for tool in _tools(request) if not allowed or tool.name in allowed]
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(contents[-1]),
        [] if calling.get("mode") == "NONE" else tools,
        forced="" if calling.get("mode") == "ANY" else None,
    )
    parts = _parts(answer, platform, shows=_shows_thoughts(request), signs=version(request["model"]) >= 3)
    asked, said = token_count(raw), token_count(to_json(parts))
    thought = token_count(answer.reasoning)
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": asked,
            "candidatesTokenCount": said,
            "thoughtsTokenCount": thought,
            "totalTokenCount": asked + said + thought,
        },
        "modelVersion": request["model"],
        "responseId": made_id("", raw, length=23),
    }


def _parts(answer: Answer, platform: str, *, shows: bool, signs: bool) -> list[dict[str, Any]]:
    """Only the first call is signed, or the text; thoughts themselves never are."""
    parts: list[dict[str, Any]] = [{"text": answer.reasoning, "thought": True}] if shows else []
    said: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    said += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.calls]
    if said and (signs or shows):
        said[0]["thoughtSignature"] = signature(platform, answer.reasoning)
    return parts + said


def _events(whole: dict[str, Any]) -> Iterator[bytes]:
    head = {key: value for key, value in whole.items() if key != "candidates"}
    parts = [piece for part in whole["candidates"][0]["content"]["parts"] for piece in _pieces(part)]
    for part in parts:
        content = {"content": {"parts": [part], "role": "model"}, "index": 0}
        yield b"data: " + to_json({"candidates": [content], **head}) + b"\r\n\r\n"
    last = {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": 0}
    yield b"data: " + to_json({"candidates": [last], **head}) + b"\r\n\r\n"


def _pieces(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A text in pieces, its signature in an empty one behind them, as the vendor does."""
    if "text" not in part:
        yield part
        return
    for piece in pieces(part["text"]):
        yield {"text": piece, **{key: value for key, value in part.items() if key == "thought"}}
    if "thoughtSignature" in part:
        yield {"text": "", "thoughtSignature": part["thoughtSignature"]}


def _shows_thoughts(request: dict[str, Any]) -> bool:
    config = camelled(request.get("generationConfig") or {}).get("thinkingConfig")
    return isinstance(config, dict) and camelled(config).get("includeThoughts") is True


def _text(content: dict[str, Any]) -> str:
    """What a content says; nothing when it answers calls, so that a loop of calls ends."""
    return "\n".join(part["text"] for part in _list(content.get("parts")) if isinstance(part.get("text"), str))


def _tools(request: dict[str, Any]) -> list[Tool]:
    found = []
    for entry in _list(request.get("tools")):
        for item in _list(camelled(entry).get("functionDeclarations")):
            declared = camelled(item)
            schema = declared.get("parametersJsonSchema") or _lower(declared.get("parameters") or {})
            found.append(Tool(declared["name"], schema))
    return found


def _lower(schema: Any) -> Any:
    """A schema of the vendor's own dialect, which writes types in capitals."""
    if isinstance(schema, dict):
        return {
            key: item.lower() if key == "type" and isinstance(item, str) else _lower(item)
            for key, item in schema.items()
        }
    return [_lower(item) for item in schema] if isinstance(schema, list) else schema


def _list(value: Any) -> list[Any]:
    """One object is short for a list of it."""
    return [value] if isinstance(value, dict) else value or []
