"""The list of pretend providers: a new one is its checks, its replies and one line here."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from memory.hosts import HOSTS, Host
from memory.sandbox import (
    anthropic,
    anthropic_reply,
    bedrock,
    bedrock_invoke,
    bedrock_reply,
    cerebras,
    cohere,
    cohere_reply,
    deepseek,
    fireworks,
    gemini,
    gemini_reply,
    groq,
    hosts,
    messages_hosts,
    minimax,
    mistral,
    moonshot,
    openai_chat,
    openai_responses,
    openai_responses_reply,
    openrouter,
    plain_hosts,
    qwen,
    self_hosted,
    xai,
    zhipu,
)
from memory.sandbox.openai_reply import Manner, never, speaking
from memory.sandbox.wire import BadJson, Refused, made_id


class Vendor(Struct, frozen=True):
    """How one provider behaves: its paths, what it refuses (by raising Refused), its answers and error bodies.

    A piece `{name}` of a path stands for any text, which is put into the body under this name, unless the name
    begins with `_`. `failure` is what it says with a status when the request is not to blame. `reply` and `events`
    take the decoded body, already checked, and its bytes. `streams` says whether the path is one for streams; None:
    the body says so. `errors` is the manner in which an error comes inside a stream.
    """

    paths: tuple[str, ...]
    authorise: Callable[[Mapping[str, str]], None]
    bad_json: Callable[[BadJson], Refused]
    failure: Callable[[int], Refused]
    check: Callable[[Any], None]
    reply: Callable[[dict[str, Any], bytes], dict[str, Any]]
    events: Callable[[dict[str, Any], bytes], Iterator[bytes]]
    error_body: Callable[[Refused, str], Any]
    request_id_header: str
    errors: Literal["anthropic", "chat", "openrouter", "responses", "gemini", "frames", "cohere"]
    streams: bool | None = None
    stream_type: str = "text/event-stream; charset=utf-8"
    kind_header: str = ""
    """Header of an error that names its kind."""


def _chat(host: ModuleType, *paths: str, manner: Manner | None = None, **own: Any) -> Vendor:
    """A host of the chat protocol: what its module leaves open, and `own` does not name, is as at OpenAI."""
    reply, events = speaking(manner or Manner())
    fields = {
        name: own.pop(name, None) or getattr(host, name, None) or getattr(openai_chat, name)
        for name in ("authorise", "bad_json", "failure", "check", "error_body")
    }
    return Vendor(
        paths=("/v1/chat/completions", *paths),
        reply=reply,
        events=events,
        request_id_header="x-request-id",
        errors=own.pop("errors", "chat"),
        **fields,
    )


def _nine(name: str, at: int, raw: bytes) -> str:
    return made_id("", raw, f"call {at}", length=9)


_RESPONSES = Vendor(
    paths=("/v1/responses",),
    authorise=openai_chat.authorise,
    bad_json=openai_responses.bad_json,
    failure=openai_chat.failure,
    check=openai_responses.check,
    reply=openai_responses_reply.reply,
    events=openai_responses_reply.events,
    error_body=openai_chat.error_body,
    request_id_header="x-request-id",
    errors="responses",
)
_AZURE_RESPONSES = replace(
    _RESPONSES,
    paths=("/openai/v1/responses", "/v1/responses"),
    authorise=openai_responses.authorise_azure,
    check=openai_responses.check_azure,
    error_body=openai_responses.azure_error_body,
    request_id_header="apim-request-id",
)
_HOSTED_RESPONSES = replace(_RESPONSES, check=openai_responses.check_host)
_OPENAI_CHAT = _chat(openai_chat)

_GEMINI = Vendor(
    paths=("/{_version}/models/{model}:generateContent",),
    authorise=gemini.authorise_key,
    bad_json=gemini.bad_json,
    failure=gemini.failure,
    check=gemini.check,
    reply=gemini_reply.reply,
    events=gemini_reply.events,
    error_body=gemini.error_body,
    request_id_header="x-gemini-request-id",
    errors="gemini",
    streams=False,
)
_GEMINI_STREAM = ("/{_version}/models/{model}:streamGenerateContent",)
_VERTEX = replace(
    _GEMINI,
    paths=("/{_place}/models/{model}:generateContent",),
    authorise=gemini.authorise_token,
    failure=gemini.vertex_failure,
    check=gemini.check_vertex,
    reply=gemini_reply.vertex_reply,
    events=gemini_reply.vertex_events,
)
_CONVERSE = Vendor(
    # The site asks all its pretend providers below /v1.
    paths=("/model/{modelId}/converse", "/v1/model/{modelId}/converse"),
    authorise=bedrock.authorise,
    bad_json=bedrock.bad_json,
    failure=bedrock.failure,
    check=bedrock.check,
    reply=bedrock_reply.reply,
    events=bedrock_reply.events,
    error_body=bedrock.error_body,
    request_id_header="x-amzn-requestid",
    errors="frames",
    streams=False,
    kind_header="x-amzn-errortype",
)
_INVOKE = replace(
    _CONVERSE,
    paths=("/model/{model}/invoke",),
    check=bedrock_invoke.check,
    reply=anthropic_reply.reply,
    events=bedrock_invoke.events,
)

_ANTHROPIC = Vendor(
    paths=("/v1/messages",),
    authorise=anthropic.authorise,
    bad_json=anthropic.bad_json,
    failure=anthropic.failure,
    check=anthropic.check,
    reply=anthropic_reply.reply,
    events=anthropic_reply.events,
    error_body=anthropic.error_body,
    request_id_header="request-id",
    errors="anthropic",
)


def _messages(host: ModuleType, **own: Any) -> Vendor:
    """A chat host's endpoint of Anthropic's protocol: errors are as at its other one, unless `own` names them."""
    reply, events = messages_hosts.speaking(host.is_thinking)
    return Vendor(
        # Their documents' address, and the one below /v1 where the site asks all its pretend providers.
        paths=("/anthropic/v1/messages", "/v1/messages"),
        bad_json=openai_chat.bad_json,
        failure=host.failure,
        reply=reply,
        events=events,
        request_id_header="x-request-id",
        errors="anthropic",
        **own,
    )


def _known_by_facts(host: Host) -> Vendor:
    """A host without code of its own, below the path of its address."""
    return _chat(
        plain_hosts,
        f"{urlsplit(host.base_url).path.rstrip('/')}/chat/completions",
        check=partial(hosts.check, host=host),
        manner=Manner(host.shows_reasoning, plain_hosts.is_reasoning if host.shows_reasoning else never),
    )


_LISTED: dict[str, tuple[Vendor, ...]] = {
    "anthropic": (_ANTHROPIC,),
    "openai": (_OPENAI_CHAT, _RESPONSES),
    "azure": (
        _AZURE_RESPONSES,
        replace(
            _AZURE_RESPONSES,
            paths=(
                "/openai/deployments/{model}/chat/completions",
                "/openai/v1/chat/completions",
                "/v1/chat/completions",
            ),
            check=openai_responses.check_azure_chat,
            reply=_OPENAI_CHAT.reply,
            events=_OPENAI_CHAT.events,
            errors="chat",
        ),
    ),
    "gemini": (
        _GEMINI,
        replace(_GEMINI, paths=_GEMINI_STREAM, streams=True),
        _chat(
            plain_hosts,
            "/v1beta/openai/chat/completions",
            check=plain_hosts.check_gemini,
            failure=gemini.failure,
            error_body=plain_hosts.gemini_error_body,
            manner=Manner(has_whole_calls=True, usage="last"),
        ),
    ),
    "vertex": (
        _VERTEX,
        replace(_VERTEX, paths=("/{_place}/models/{model}:streamGenerateContent",), streams=True),
    ),
    "bedrock": (
        _CONVERSE,
        replace(
            _CONVERSE,
            paths=("/model/{modelId}/converse-stream", "/v1/model/{modelId}/converse-stream"),
            streams=True,
            stream_type=bedrock_reply.STREAM_TYPE,
        ),
        _INVOKE,
        replace(
            _INVOKE,
            paths=("/model/{model}/invoke-with-response-stream",),
            streams=True,
            stream_type=bedrock_reply.STREAM_TYPE,
        ),
        replace(_HOSTED_RESPONSES, paths=("/openai/v1/responses", "/v1/responses")),
        _chat(plain_hosts, "/openai/v1/chat/completions"),
    ),
    "cohere": (
        Vendor(
            paths=("/v2/chat", "/v1/chat"),
            authorise=cohere.authorise,
            bad_json=cohere.bad_json,
            failure=cohere.failure,
            check=cohere.check,
            reply=cohere_reply.reply,
            events=cohere_reply.events,
            error_body=cohere.error_body,
            request_id_header="x-request-id",
            errors="cohere",
        ),
    ),
    "cerebras": (_chat(cerebras, manner=Manner("reasoning", cerebras.shows_reasoning)),),
    "mistral": (
        _chat(
            mistral,
            manner=Manner(
                "chunks", mistral.is_reasoning, call_id=_nine, reply_id="", has_whole_calls=True, usage="last"
            ),
        ),
    ),
    "groq": (_chat(groq, "/openai/v1/chat/completions", manner=Manner("reasoning", groq.is_reasoning, usage="last")),),
    "deepseek": (
        _chat(
            deepseek,
            "/chat/completions",
            manner=Manner(
                "reasoning_content",
                deepseek.is_thinking,
                call_id=lambda name, at, raw: made_id(f"call_{at:02}_", raw, f"call {at}"),
                usage="last",
            ),
        ),
        replace(_HOSTED_RESPONSES, paths=("/responses", "/v1/responses")),
        _messages(
            deepseek,
            authorise=messages_hosts.authorise_deepseek,
            check=messages_hosts.check_deepseek,
            error_body=openai_chat.error_body,
        ),
    ),
    "xai": (
        _chat(xai, manner=Manner("reasoning_content", xai.is_reasoning, has_whole_calls=True, usage="always")),
        replace(_RESPONSES, check=xai.check_responses, failure=xai.failure, error_body=xai.error_body),
    ),
    "moonshot": (
        _chat(
            moonshot,
            manner=Manner(
                "reasoning_content",
                moonshot.is_thinking,
                call_id=lambda name, at, raw: f"functions.{name}:{at}",
                usage="last",
            ),
        ),
        _messages(
            moonshot,
            authorise=messages_hosts.authorise_moonshot,
            check=messages_hosts.check_moonshot,
            error_body=anthropic.error_body,
        ),
    ),
    "qwen": (
        _chat(qwen, "/compatible-mode/v1/chat/completions", manner=Manner("reasoning_content", qwen.is_thinking)),
    ),
    "zhipu": (
        _chat(
            zhipu,
            "/api/paas/v4/chat/completions",
            manner=Manner("reasoning_content", zhipu.is_thinking, has_whole_calls=True, usage="last"),
        ),
    ),
    "minimax": (
        _chat(
            minimax,
            manner=Manner(call_id=lambda name, at, raw: made_id("call_function_", raw, length=12) + f"_{at + 1}"),
        ),
    ),
    "together": (_chat(plain_hosts, manner=Manner("reasoning", plain_hosts.is_reasoning, usage="last")),),
    "fireworks": (
        _chat(
            fireworks,
            "/inference/v1/chat/completions",
            manner=Manner("reasoning_content", plain_hosts.is_reasoning, usage="last"),
        ),
    ),
    "openrouter": (
        _chat(
            openrouter,
            "/api/v1/chat/completions",
            manner=Manner(
                "reasoning",
                openrouter.is_reasoning,
                call_id=lambda name, at, raw: made_id(f"tool_{at}_{name}_", raw, f"call {at}", length=20),
                reply_id="gen-",
                usage="always",
                comment=b": OPENROUTER PROCESSING\n\n",
            ),
            errors="openrouter",
        ),
        replace(_HOSTED_RESPONSES, paths=("/api/v1/responses", "/v1/responses")),
    ),
    "huggingface": (_chat(plain_hosts, "/{_host}/v1/chat/completions", "/{_host}/v3/openai/chat/completions"),),
    "ollama": (
        _chat(
            self_hosted,
            check=self_hosted.check_ollama,
            manner=Manner("reasoning", self_hosted.is_reasoning, has_whole_calls=True),
        ),
    ),
    "vllm": (
        _chat(
            self_hosted,
            check=self_hosted.check_vllm,
            error_body=self_hosted.vllm_error_body,
            manner=Manner(
                "reasoning_content",
                self_hosted.is_reasoning,
                call_id=lambda name, at, raw: made_id("chatcmpl-tool-", raw, f"call {at}", length=32),
            ),
        ),
    ),
    **{host.id: (_known_by_facts(host),) for host in HOSTS},
    "other": (
        _chat(
            plain_hosts,
            "/chat/completions",
            "/{_base}/chat/completions",
            manner=Manner("reasoning_content", plain_hosts.is_reasoning),
        ),
        replace(_HOSTED_RESPONSES, paths=("/responses", "/v1/responses", "/{_base}/responses")),
        # Gateways that speak a maker's own protocol in front of its models.
        _ANTHROPIC,
        replace(_GEMINI, authorise=gemini.authorise_token),
        replace(_GEMINI, paths=_GEMINI_STREAM, authorise=gemini.authorise_token, streams=True),
        _CONVERSE,
    ),
}
VENDORS = {provider: listed[0] for provider, listed in _LISTED.items()}
"""By provider id who speaks for it where no path says more."""


def find(provider: str, path: str) -> tuple[Vendor, dict[str, str]] | None:
    """Who answers at a path below the provider's id, and what the path says; None when there is nothing."""
    for vendor in _LISTED[provider]:
        for own in vendor.paths:
            if found := _pattern(own).fullmatch(path):
                return vendor, {name: unquote(text) for name, text in found.groupdict().items() if name[0] != "_"}
    return None


@lru_cache
def _pattern(path: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", path)
    texts = (re.escape(text) if at % 2 == 0 else f"(?P<{text}>.+?)" for at, text in enumerate(pieces))
    return re.compile("".join(texts), re.DOTALL)
