"""The list of pretend providers: a new one is its checks, its replies and one line here."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from memory.sandbox import (
    anthropic,
    anthropic_reply,
    bedrock,
    bedrock_reply,
    cerebras,
    cohere,
    cohere_reply,
    gemini,
    gemini_reply,
    openai_chat,
    openai_reply,
    openai_responses,
    openai_responses_reply,
)
from memory.sandbox.wire import BadJson, Refused, words


class Vendor(Struct, frozen=True):
    """How one provider behaves: its path, what it refuses (by raising Refused), its answers and error bodies.

    A piece `{name}` of the path stands for any text, which is put into the body under this name, unless the name
    begins with `_`. `failure` is what it says with a status when the request is not to blame. `reply` and `events`
    take the decoded body, already checked, and its bytes. `streams` says whether the path is one for streams; None:
    the body says so.
    """

    path: str
    authorise: Callable[[Mapping[str, str]], None]
    bad_json: Callable[[BadJson], Refused]
    failure: Callable[[int], Refused]
    check: Callable[[Any], None]
    reply: Callable[[dict[str, Any], bytes], dict[str, Any]]
    events: Callable[[dict[str, Any], bytes], Iterator[bytes]]
    error_body: Callable[[Refused, str], dict[str, Any]]
    request_id_header: str
    streams: bool | None = None
    stream_type: str = "text/event-stream; charset=utf-8"
    kind_header: str = ""
    """Header of an error that names its kind."""


_RESPONSES = Vendor(
    path="/v1/responses",
    authorise=openai_chat.authorise,
    bad_json=openai_responses.bad_json,
    failure=openai_chat.failure,
    check=openai_responses.check,
    reply=openai_responses_reply.reply,
    events=openai_responses_reply.events,
    error_body=openai_chat.error_body,
    request_id_header="x-request-id",
)
_AZURE_RESPONSES = replace(
    _RESPONSES,
    path="/openai/v1/responses",
    authorise=openai_responses.authorise_azure,
    check=openai_responses.check_azure,
    error_body=openai_responses.azure_error_body,
    request_id_header="apim-request-id",
)
_AZURE_CHAT = replace(
    _AZURE_RESPONSES,
    path="/openai/deployments/{model}/chat/completions",
    check=openai_responses.check_azure_chat,
    reply=openai_reply.openai_reply,
    events=openai_reply.openai_events,
)
_HOSTED_RESPONSES = replace(_RESPONSES, check=openai_responses.check_host)

_GEMINI = Vendor(
    path="/{_version}/models/{model}:generateContent",
    authorise=gemini.authorise_key,
    bad_json=gemini.bad_json,
    failure=gemini.failure,
    check=gemini.check,
    reply=gemini_reply.reply,
    events=gemini_reply.events,
    error_body=gemini.error_body,
    request_id_header="x-gemini-request-id",
    streams=False,
)
_VERTEX = replace(
    _GEMINI,
    path="/{_place}/models/{model}:generateContent",
    authorise=gemini.authorise_token,
    failure=gemini.vertex_failure,
    check=gemini.check_vertex,
    reply=gemini_reply.vertex_reply,
    events=gemini_reply.vertex_events,
)

VENDORS: dict[str, Vendor] = {
    "anthropic": Vendor(
        path="/v1/messages",
        authorise=anthropic.authorise,
        bad_json=anthropic.bad_json,
        failure=anthropic.failure,
        check=anthropic.check,
        reply=anthropic_reply.reply,
        events=anthropic_reply.events,
        error_body=anthropic.error_body,
        request_id_header="request-id",
    ),
    "openai": Vendor(
        path="/v1/chat/completions",
        authorise=openai_chat.authorise,
        bad_json=openai_chat.bad_json,
        failure=openai_chat.failure,
        check=openai_chat.check,
        reply=openai_reply.openai_reply,
        events=openai_reply.openai_events,
        error_body=openai_chat.error_body,
        request_id_header="x-request-id",
    ),
    "cerebras": Vendor(
        path="/v1/chat/completions",
        authorise=cerebras.authorise,
        bad_json=cerebras.bad_json,
        failure=cerebras.failure,
        check=cerebras.check,
        reply=openai_reply.cerebras_reply,
        events=openai_reply.cerebras_events,
        error_body=cerebras.error_body,
        request_id_header="x-request-id",
    ),
    "bedrock": Vendor(
        path="/model/{modelId}/converse",
        authorise=bedrock.authorise,
        bad_json=bedrock.bad_json,
        failure=bedrock.failure,
        check=bedrock.check,
        reply=bedrock_reply.reply,
        events=bedrock_reply.events,
        error_body=bedrock.error_body,
        request_id_header="x-amzn-requestid",
        streams=False,
        kind_header="x-amzn-errortype",
    ),
    "cohere": Vendor(
        path="/v2/chat",
        authorise=cohere.authorise,
        bad_json=cohere.bad_json,
        failure=cohere.failure,
        check=cohere.check,
        reply=cohere_reply.reply,
        events=cohere_reply.events,
        error_body=cohere.error_body,
        request_id_header="x-request-id",
    ),
    "azure": _AZURE_RESPONSES,
    "gemini": _GEMINI,
    "vertex": _VERTEX,
    "deepseek": _HOSTED_RESPONSES,
    "openrouter": replace(_HOSTED_RESPONSES, path="/api/v1/responses"),
}

PROVIDERS = words(
    "anthropic azure bedrock cerebras cohere deepseek fireworks gemini groq huggingface minimax mistral moonshot "
    "ollama openai openrouter other qwen together vertex vllm xai zhipu"
)
"""Every provider id; those without a line above are told apart from unknown ones, and answer 501."""

FURTHER: dict[str, tuple[Vendor, ...]] = {
    "bedrock": (
        replace(
            VENDORS["bedrock"],
            path="/model/{modelId}/converse-stream",
            streams=True,
            stream_type=bedrock_reply.STREAM_TYPE,
        ),
        replace(_HOSTED_RESPONSES, path="/openai/v1/responses"),
    ),
    "openai": (_RESPONSES,),
    "gemini": (replace(_GEMINI, path="/{_version}/models/{model}:streamGenerateContent", streams=True),),
    "vertex": (replace(_VERTEX, path="/{_place}/models/{model}:streamGenerateContent", streams=True),),
    "azure": (_AZURE_CHAT, replace(_AZURE_CHAT, path="/openai/v1/chat/completions")),
}
"""What a provider of `VENDORS` has on other paths."""


def find(provider: str, path: str) -> tuple[Vendor, dict[str, str]] | None:
    """Who answers at a path below the provider's id, and what the path says; None when there is nothing."""
    known = VENDORS.get(provider)
    for vendor in (known, *FURTHER.get(provider, ())) if known else ():
        if found := _pattern(vendor.path).fullmatch(path):
            return vendor, {name: unquote(text) for name, text in found.groupdict().items() if name[0] != "_"}
    return None


@lru_cache
def _pattern(path: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", path)
    texts = (re.escape(text) if at % 2 == 0 else f"(?P<{text}>.+?)" for at, text in enumerate(pieces))
    return re.compile("".join(texts), re.DOTALL)
