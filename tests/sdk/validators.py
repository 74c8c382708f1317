"""Request bodies against the request types of the official client libraries, which are imported late: they are slow."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.sdk.typed import faults

Validator = Callable[[dict[str, Any]], list[str]]


def validator(protocol: str, provider: str) -> Validator:
    """What tells the faults of a body, as `place: reason`. Mistral's library has a protocol of its own over chat."""
    if provider == "mistral" and protocol == "openai-chat":
        return _mistral()
    return _BY_PROTOCOL[protocol]()


@cache
def _openai_chat() -> Validator:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as Whole
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as Streamed

    return lambda body: faults(body, Streamed if body.get("stream") else Whole)


@cache
def _openai_responses() -> Validator:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as Whole
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming as Streamed

    return lambda body: faults(body, Streamed if body.get("stream") else Whole)


@cache
def _anthropic() -> Validator:
    # The beta types hold all the others and what a beta header adds.
    from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as Whole
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as Streamed

    return lambda body: faults(body, Streamed if body.get("stream") else Whole)


@cache
def _gemini() -> Validator:
    from google.genai import types

    parts: dict[str, Any] = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "safetySettings": list[types.SafetySetting],
        "cachedContent": str,
        "labels": dict[str, str],
        "serviceTier": str,
    }
    # The library's call takes one flat config, which it takes apart into these and `generationConfig`.
    config = types.GenerateContentConfig

    def check(body: dict[str, Any]) -> list[str]:
        found = []
        for key, value in body.items():
            if key == "model":
                continue
            if key == "generationConfig":
                found += _model_faults(config, value, key)
            elif key in parts:
                found += _model_faults(parts[key], value, key)
            else:
                found.append(f".{key}: unknown")
        return found

    return check


@cache
def _converse() -> Validator:
    import botocore.session
    from botocore.validate import ParamValidator

    service = botocore.session.Session().get_service_model("bedrock-runtime")
    shape = service.operation_model("Converse").input_shape

    def check(body: dict[str, Any]) -> list[str]:
        report = ParamValidator().validate({"modelId": "any", **body}, shape)
        return [line for line in report.generate_report().splitlines() if line] + _beyond(body, shape, "")

    return check


def _beyond(value: Any, shape: Any, place: str) -> list[str]:
    """What the service's model says of texts, and botocore leaves to the service: their words, patterns and length."""
    if shape.type_name == "structure" and isinstance(value, dict) and not getattr(shape, "is_document_type", False):
        members = [(f"{place}.{key}", value[key], shape.members[key]) for key in value if key in shape.members]
        return [fault for at, item, member in members for fault in _beyond(item, member, at)]
    if shape.type_name == "list" and isinstance(value, list):
        return [fault for at, item in enumerate(value) for fault in _beyond(item, shape.member, f"{place}[{at}]")]
    if shape.type_name != "string" or not isinstance(value, str):
        return []
    if shape.enum and value not in shape.enum:
        return [f"{place}: {value!r} is none of {', '.join(map(repr, shape.enum))}"]
    if (pattern := shape.metadata.get("pattern")) and not re.fullmatch(pattern, value):
        return [f"{place}: {value!r:.40} does not match {pattern}"]
    longest = shape.metadata.get("max")
    return [f"{place}: longer than {longest}"] if longest and len(value) > longest else []


@cache
def _cohere() -> Validator:
    from cohere.types.chat_message_v2 import ChatMessageV2
    from cohere.types.citation_options import CitationOptions
    from cohere.types.response_format_v2 import ResponseFormatV2
    from cohere.types.thinking import Thinking
    from cohere.types.tool_v2 import ToolV2

    parts: dict[str, Any] = {
        "messages": list[ChatMessageV2],
        "tools": list[ToolV2],
        "citation_options": CitationOptions,
        "response_format": ResponseFormatV2,
        "thinking": Thinking,
    }
    plain: dict[str, Any] = {
        "model": str,
        "stream": bool,
        "max_tokens": int,
        "temperature": float,
        "p": float,
        "k": int,
        "seed": int,
        "frequency_penalty": float,
        "presence_penalty": float,
        "stop_sequences": list[str],
        "tool_choice": str,
        "strict_tools": bool,
        "safety_mode": str,
        "logprobs": bool,
        "priority": int,
        "documents": list[object],
    }

    def check(body: dict[str, Any]) -> list[str]:
        found = [f".{key}: unknown" for key in body.keys() - parts.keys() - plain.keys()]
        for key, value in body.items():
            if key in parts:
                found += _model_faults(parts[key], value, key)
            elif key in plain:
                found += faults(value, plain[key], f".{key}")
        return found

    return check


@cache
def _mistral() -> Validator:
    from mistralai.client.models import ChatCompletionRequest

    return lambda body: _model_faults(ChatCompletionRequest, body, "")


def _model_faults(hint: Any, value: Any, place: str) -> list[str]:
    """Faults of a value against pydantic's models; a key that comes out no more is one they don't know."""
    from pydantic import ValidationError

    adapter = _adapter(hint)
    try:
        made = adapter.validate_python(value)
    except ValidationError as error:
        return [_spelled(place, fault) for fault in error.errors()]
    dumped = adapter.dump_python(made, by_alias=True, exclude_unset=True, mode="json")
    return _lost(value, dumped, f".{place}") + _extra(made, f".{place}")


@cache
def _adapter(hint: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def _spelled(place: str, fault: Any) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    return f".{place}{steps}: {'unknown' if fault['type'] == 'extra_forbidden' else fault['msg']}"


def _extra(made: Any, place: str) -> list[str]:
    """The keys that models took without knowing them."""
    from pydantic import BaseModel

    if isinstance(made, BaseModel):
        fields = [(f"{place}.{name}", getattr(made, name)) for name in type(made).model_fields]
        unknown = [f"{place}.{name}: unknown" for name in made.model_extra or {}]
        return unknown + [fault for at, value in fields for fault in _extra(value, at)]
    if isinstance(made, list):
        return [fault for at, item in enumerate(made) for fault in _extra(item, f"{place}[{at}]")]
    return []


def _lost(before: Any, after: Any, place: str) -> list[str]:
    """The keys that are gone; one that comes back in camelCase is not."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key, value in before.items():
            kept = next((name for name in (key, _camelled(key)) if name in after), None)
            found += [f"{place}.{key}: unknown"] if kept is None else _lost(value, after[kept], f"{place}.{key}")
        return found
    if isinstance(before, list) and isinstance(after, list):
        return [
            fault for at, pair in enumerate(zip(before, after, strict=True)) for fault in _lost(*pair, f"{place}[{at}]")
        ]
    return []


def _camelled(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


_BY_PROTOCOL: dict[str, Callable[[], Validator]] = {
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic-messages": _anthropic,
    "gemini-contents": _gemini,
    "bedrock-converse": _converse,
    "cohere-v2": _cohere,
}
