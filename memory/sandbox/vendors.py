"""The list of pretend providers: a new one is its checks, its replies and one line here."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from memory.sandbox import anthropic, anthropic_reply, cerebras, openai_chat, openai_reply
from memory.sandbox.wire import BadJson, Refused, words


class Vendor(Struct, frozen=True):
    """How one provider behaves: its path, what it refuses (by raising Refused), its answers and error bodies.

    `failure` is what it says with a status when the request is not to blame. `reply` and `events` take the decoded
    body, already checked, and its bytes.
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
}

PROVIDERS = words(
    "anthropic azure bedrock cerebras cohere deepseek fireworks gemini groq huggingface minimax mistral moonshot "
    "ollama openai openrouter other qwen together vertex vllm xai zhipu"
)
"""Every provider id; those without a line above are told apart from unknown ones, and answer 501."""
