"""Stored threads as bad as a store can hold: every part type and state, what imports leave, text that breaks JSON."""

import base64
import struct
import zlib
from typing import Any

from hypothesis import strategies as st

STATES = ("call", "partial-call", "approval-requested", "approval-responded", "result", "output-error", "output-denied")
ODD = [
    "",
    " ",
    "\n\t",
    "plain",
    "two\nlines",
    "trailing \n",
    "é😀",
    "a\x00b",
    "\ud83d",
    "x\udc00y",
    "<system-reminder>x",
]
IDS = [
    "a.1",
    "a:1",
    "a_1",
    "a_1_2",
    "",
    " ",
    "functions.search:0",
    "x" * 50,
    "y" * 300,
    "é",
    "z\x00",
    "\ud800",
    "call|fc",
]
NAMES = ["search", "se arch", "se.arch", "", "1st", "n" * 140, "é", "a\x00", "web_search", "name-with-dash"]
MODELS = {
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-8", "claude-3-5-haiku-20241022"),
    "vertex": ("claude-sonnet-4-5", "gemini-3-flash-preview"),
    "bedrock": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"),
    "openai": ("gpt-4o", "gpt-5"),
    "azure": ("gpt-4o",),
    "gemini": ("gemini-2.5-flash", "gemini-3-pro"),
    "deepseek": ("deepseek-v4-pro",),
    "moonshot": ("kimi-k2.5",),
    "cerebras": ("gpt-oss-120b",),
    "groq": ("openai/gpt-oss-120b",),
    "minimax": ("MiniMax-M2",),
    "openrouter": ("anthropic/claude-sonnet-4-5",),
    "unheard-of": ("m",),
}
SEAL = base64.b64encode(b"s" * 48).decode()
SEALS = ["", "short", SEAL, SEAL[:-4] + "AAA="]


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\x00" + b"\x00" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(raw).decode()


SMALL, WIDE = png(3, 2), png(8100, 1)
DATA = [SMALL, WIDE, f"data:image/png;base64,{SMALL}", "https://x.invalid/a.png", "s3://bucket/k", "gs://b/k", "",
        "no base64!", "/9j/4AAQ", "JVBERi0xLjQK", "aGVsbG8="]  # fmt: skip
TYPES = ["image/png", "image/jpg", "image/*", "image/svg+xml", "application/pdf", "application/json", "text/plain",
         "text/html", "audio/wav", "audio/mpeg", "video/mp4", "application/octet-stream", "png", ""]  # fmt: skip

texts = st.sampled_from(ODD)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["k", "value", "type", "a\x00"]), inner)
    ),
    max_leaves=4,
)
FURTHER = ["index", "foo", "text", "status", "caller", "detail", "name"]
further = st.dictionaries(st.sampled_from(FURTHER), texts, max_size=2)

_anthropic = st.fixed_dictionaries(
    {},
    optional={
        "signature": st.sampled_from(SEALS),
        "redactedData": st.sampled_from(SEALS),
        "cacheControl": st.just({"type": "ephemeral"}),
        "extra": further,
        "call": further,
        "result": further,
        "isError": st.booleans(),
        "cacheOnCall": st.booleans(),
        "cacheOnResult": st.booleans(),
    },
)
_openai = st.fixed_dictionaries(
    {},
    optional={
        "itemId": st.sampled_from(["msg_1", "rs_1", "fc_1", "item_df7e", ""]),
        "resultItemId": st.sampled_from(["fco_1", ""]),
        "reasoningEncryptedContent": st.sampled_from(SEALS),
        "extra": further,
        "inner": further,
        "callExtra": further,
        "resultExtra": further,
        "item": further,
        "content": further,
        "call": further,
        "result": further,
        "refusal": st.booleans(),
        "rawArguments": st.booleans(),
        "joined": st.booleans(),
    },
)
_google = st.fixed_dictionaries(
    {},
    optional={
        "thoughtSignature": st.sampled_from(SEALS),
        "extra": further,
        "inner": further,
        "call": further,
        "result": further,
        "resultPart": further | st.fixed_dictionaries({"thoughtSignature": st.sampled_from(SEALS)}),
        "apart": st.booleans(),
        "joined": st.booleans(),
    },
)
_host = st.fixed_dictionaries(
    {},
    optional={
        "extra": further,
        "inner": further,
        "callExtra": further,
        "resultExtra": further,
        "field": st.sampled_from(["reasoning", "reasoning_content"]),
        "cachePoint": st.just({"type": "default"}),
        "call": further,
        "result": further,
        "rawArguments": st.booleans(),
    },
)
_thought = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2)
_chunk = st.fixed_dictionaries({"block": st.fixed_dictionaries({"type": st.just("thinking"), "thinking": _thought})})
HOSTS = ("bedrock", "cohere", "mistral", "groq", "cerebras", "deepseek", "fireworks", "openrouter", "xai", "vertex")
options = st.fixed_dictionaries(
    {},
    optional={
        "anthropic": _anthropic,
        "openai": _openai,
        "azure": _openai,
        "google": _google,
        "mastra": st.fixed_dictionaries({}, optional={"orphanResult": st.booleans(), "modelOutput": values}),
        "elsewhere": st.just({"block": {"type": "widget"}}),
    },
)
host_options = st.dictionaries(st.sampled_from(HOSTS), _host, max_size=1)
chunks = st.fixed_dictionaries({"mistral": _chunk})


@st.composite
def _with_metadata(draw: st.DrawFn, part: dict[str, Any]) -> dict[str, Any]:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return {**part, "providerMetadata": draw(options)}
    if kind == 1:
        return {**part, "providerMetadata": draw(host_options)}
    return part


@st.composite
def _media_items(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"type": "text", "text": draw(texts)}
    return {"type": "media", "data": draw(st.sampled_from(DATA)), "mediaType": draw(st.sampled_from(TYPES))}


@st.composite
def _tools(draw: st.DrawFn) -> dict[str, Any]:
    state = draw(st.sampled_from(STATES))
    args = st.dictionaries(st.sampled_from(["x", "y\x00"]), values, max_size=2)
    invocation: dict[str, Any] = {
        "state": state,
        "toolCallId": draw(st.sampled_from(IDS)),
        "toolName": draw(st.sampled_from(NAMES)),
        "args": draw(args | values | st.sampled_from(['{"a": 1}', "{broken", "[]"])),
    }
    if state == "result":
        media = st.lists(_media_items(), max_size=2).map(lambda items: {"type": "content", "value": items})
        invocation["result"] = draw(values | media)
    elif state == "output-error":
        invocation["errorText"] = draw(texts)
    elif state == "output-denied":
        invocation["approval"] = {"id": "ap", "approved": False, "reason": draw(texts)}
    part: dict[str, Any] = {"type": "tool-invocation", "toolInvocation": invocation}
    if draw(st.integers(0, 3)) == 0:
        part["providerExecuted"] = True
    return draw(_with_metadata(part))


@st.composite
def _files(draw: st.DrawFn) -> dict[str, Any]:
    part = {"type": "file", "data": draw(st.sampled_from(DATA))}
    if kind := draw(st.sampled_from(TYPES)):
        part["mimeType"] = kind
    if draw(st.booleans()):
        part["filename"] = draw(texts)
    return draw(_with_metadata(part))


@st.composite
def _reasonings(draw: st.DrawFn) -> dict[str, Any]:
    details = draw(
        st.lists(st.sampled_from([{"type": "text", "text": "t"}, {"type": "redacted", "data": "x"}]), max_size=2)
    )
    part = {"type": "reasoning", "reasoning": draw(texts), "details": details}
    if draw(st.integers(0, 3)) == 0:
        provider = draw(st.sampled_from(sorted(MODELS)))
        part["providerMetadata"] = {"mastra": {"provider": provider, "modelId": MODELS[provider][0]}}
        return part
    if draw(st.integers(0, 5)) == 0:
        return {**part, "providerMetadata": draw(chunks)}
    return draw(_with_metadata(part))


_texts = texts.map(lambda text: {"type": "text", "text": text}).flatmap(_with_metadata)
_rest = st.sampled_from(
    [
        {"type": "step-start"},
        {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "https://x.invalid"}},
        {"type": "source-document", "sourceId": "d", "mediaType": "application/pdf", "title": "T"},
        {"type": "data-note", "data": {"a\x00": None}},
        {"type": "unheard-of", "text": "what"},
    ]
)


@st.composite
def messages(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """The message with this number."""
    role = draw(st.sampled_from(["user", "user", "assistant", "assistant", "assistant", "signal", "system"]))
    kinds = _texts | _files() | _rest
    if role == "assistant":
        kinds = kinds | _tools() | _tools() | _reasonings()
    content: dict[str, Any] = {"format": 2, "parts": draw(st.lists(kinds, max_size=4))}
    if role == "assistant" and draw(st.integers(0, 2)):
        provider = draw(st.sampled_from(sorted(MODELS)))
        content["metadata"] = {"provider": provider, "modelId": draw(st.sampled_from(MODELS[provider]))}
    if draw(st.integers(0, 9)) == 0:
        del content["parts"]
        content["toolInvocations"] = [part["toolInvocation"] for part in draw(st.lists(_tools(), max_size=2))]
        content["reasoning"] = draw(texts)
    if draw(st.integers(0, 5)) == 0:
        content["content"] = draw(texts)
    if draw(st.integers(0, 5)) == 0:
        namespace = draw(st.sampled_from(["anthropic", "openai", "google", "mistral", "bedrock", "cohere"]))
        extra = draw(further)
        told = draw(st.sampled_from([{"role": "system"}, {"role": "developer"}, {"joined": True}, {}]))
        content["providerMetadata"] = {namespace: {**told, **({"extra": extra} if extra else {})}}
    return {"id": f"m{number}", "role": role, "createdAt": f"2026-02-10T08:00:{number:02d}.000Z", "content": content}


@st.composite
def threads(draw: st.DrawFn, *, max_size: int = 7) -> list[dict[str, Any]]:
    """A stored thread, oldest message first."""
    return [draw(messages(number)) for number in range(draw(st.integers(1, max_size)))]
