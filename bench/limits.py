"""The least that any product has to do: each row decoded, mapped plainly to a protocol's shape and encoded.

Nothing is checked, renamed or recorded. What a shape has no place for, and reasoning that its provider did not write,
is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bench.threads import Row

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def anthropic(rows: list[Row]) -> bytes:
    out = []
    for _, role, text in rows:
        blocks: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in _decode(text)["parts"]:
            kind = part["type"]
            if kind == "text":
                blocks.append({"type": "text", "text": part["text"]})
            elif kind == "tool-invocation":
                call = part["toolInvocation"]
                call_id = call["toolCallId"]
                blocks.append({"type": "tool_use", "id": call_id, "name": call["toolName"], "input": call["args"]})
                said = _encode(call["result"]).decode()
                results.append({"type": "tool_result", "tool_use_id": call_id, "content": said})
            elif kind == "reasoning":
                thinking = {"type": "thinking", "thinking": part["details"][0]["text"]}
                if "providerMetadata" in part:
                    thinking |= part["providerMetadata"]
                blocks.append(thinking)
            elif results:
                out.append(_encode({"role": role, "content": blocks}))
                out.append(_encode({"role": "user", "content": results}))
                blocks, results = [], []
        out.append(_encode({"role": role, "content": blocks}))
    return b'{"messages":[' + b",".join(out) + b"]}"


def chat(rows: list[Row]) -> bytes:
    """Also Cohere's shape."""
    out = []
    for _, role, text in rows:
        said = None
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in _decode(text)["parts"]:
            kind = part["type"]
            if kind == "text":
                said = part["text"]
            elif kind == "tool-invocation":
                call = part["toolInvocation"]
                call_id = call["toolCallId"]
                function = {"name": call["toolName"], "arguments": _encode(call["args"]).decode()}
                calls.append({"type": "function", "id": call_id, "function": function})
                output = _encode(call["result"]).decode()
                results.append({"role": "tool", "tool_call_id": call_id, "content": output})
            elif kind == "step-start" and calls:
                out.append(_encode({"role": role, "content": said, "tool_calls": calls}))
                out += map(_encode, results)
                said, calls, results = None, [], []
        out.append(_encode({"role": role, "content": said}))
    return b'{"messages":[' + b",".join(out) + b"]}"


def responses(rows: list[Row]) -> bytes:
    out = []
    for _, role, text in rows:
        results: list[dict[str, Any]] = []
        for part in _decode(text)["parts"]:
            kind = part["type"]
            if kind == "text":
                if "providerMetadata" in part:
                    item_id = part["providerMetadata"]["openai"]["itemId"]
                    content = [{"type": "output_text", "text": part["text"], "annotations": []}]
                    said = {"type": "message", "role": role, "content": content, "id": item_id, "status": "completed"}
                    out.append(_encode(said))
                else:
                    out.append(_encode({"role": role, "content": part["text"]}))
            elif kind == "tool-invocation":
                call = part["toolInvocation"]
                call_id, arguments = call["toolCallId"], _encode(call["args"]).decode()
                asked = {"type": "function_call", "call_id": call_id, "name": call["toolName"], "arguments": arguments}
                out.append(_encode(asked))
                output = _encode(call["result"]).decode()
                results.append({"type": "function_call_output", "call_id": call_id, "output": output})
            elif kind == "reasoning":
                if mine := part.get("providerMetadata", {}).get("openai"):
                    summary = [{"type": "summary_text", "text": part["details"][0]["text"]}]
                    out.append(_encode({"type": "reasoning", "summary": summary, "id": mine["itemId"]}))
            elif results:
                out += map(_encode, results)
                results = []
    return b'{"input":[' + b",".join(out) + b"]}"


def gemini(rows: list[Row]) -> bytes:
    out = []
    for _, role, text in rows:
        role = "model" if role == "assistant" else role
        parts: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in _decode(text)["parts"]:
            kind = part["type"]
            if kind == "text":
                parts.append({"text": part["text"]})
            elif kind == "tool-invocation":
                call = part["toolInvocation"]
                call_id, name = call["toolCallId"], call["toolName"]
                parts.append({"functionCall": {"name": name, "args": call["args"], "id": call_id}})
                results.append({"functionResponse": {"name": name, "response": call["result"], "id": call_id}})
            elif results:
                out.append(_encode({"role": role, "parts": parts}))
                out.append(_encode({"role": "user", "parts": results}))
                parts, results = [], []
        out.append(_encode({"role": role, "parts": parts}))
    return b'{"contents":[' + b",".join(out) + b"]}"


def bedrock(rows: list[Row]) -> bytes:
    out = []
    for _, role, text in rows:
        blocks: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in _decode(text)["parts"]:
            kind = part["type"]
            if kind == "text":
                blocks.append({"text": part["text"]})
            elif kind == "tool-invocation":
                call = part["toolInvocation"]
                call_id = call["toolCallId"]
                blocks.append({"toolUse": {"toolUseId": call_id, "name": call["toolName"], "input": call["args"]}})
                results.append({"toolResult": {"toolUseId": call_id, "content": [{"json": call["result"]}]}})
            elif kind == "reasoning":
                if mine := part.get("providerMetadata", {}).get("anthropic"):
                    thought = {"text": part["details"][0]["text"], "signature": mine["signature"]}
                    blocks.append({"reasoningContent": {"reasoningText": thought}})
            elif results:
                out.append(_encode({"role": role, "content": blocks}))
                out.append(_encode({"role": "user", "content": results}))
                blocks, results = [], []
        out.append(_encode({"role": role, "content": blocks}))
    return b'{"messages":[' + b",".join(out) + b"]}"


LIMITS: dict[str, Callable[[list[Row]], bytes]] = {
    "anthropic-messages": anthropic,
    "openai-chat": chat,
    "openai-responses": responses,
    "gemini-contents": gemini,
    "bedrock-converse": bedrock,
    "cohere-v2": chat,
}
