"""The demo's threads as requests to any provider, by the passes that a run makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

import memory
from memory.hosts import HOSTS
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt
from memory.processors import Switches
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers import ENTRIES, wire_module
from memory.providers.calls import request_for
from memory.providers.wire import Encoded, Settings

THREADS = Path(memory.__path__[0]) / "demo" / "threads"
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-4o",
    "azure": "gpt-4o",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cerebras": "gpt-oss-120b",
    "cohere": "command-a-03-2025",
    "deepseek": "deepseek-v4-pro",
    "fireworks": "accounts/fireworks/models/kimi-k2",
    "gemini": "gemini-2.5-flash",
    "groq": "openai/gpt-oss-120b",
    "huggingface": "meta-llama/Llama-4-Scout",
    "minimax": "MiniMax-M2",
    "mistral": "mistral-large-latest",
    "moonshot": "kimi-k2.5",
    "ollama": "gpt-oss:20b",
    "openrouter": "mistralai/mistral-large",
    "other": "any-model",
    "qwen": "qwen3.5-plus",
    "together": "openai/gpt-oss-120b",
    "vertex": "gemini-3-flash-preview",
    "vllm": "Qwen/Qwen3.5-35B",
    "xai": "grok-4",
    "zhipu": "glm-4.7",
} | {host.id: host.model_id for host in HOSTS}
TARGETS = [(provider, entry.protocol) for provider, entry in ENTRIES.items()] + [
    (provider, "openai-responses") for provider in ("openai", "azure", "xai")
]
TARGETS += [(provider, protocol) for provider, entry in ENTRIES.items() for protocol in entry.elsewhere]
MORE = {
    ("anthropic", "anthropic-messages"): (
        "claude-opus-4-8", "claude-sonnet-4-6", "claude-3-7-sonnet-20250219", "claude-3-5-haiku-20241022", "claude-x",
    ),
    ("bedrock", "bedrock-converse"): ("amazon.nova-pro-v1:0", "moonshot.kimi-k2-thinking"),
    ("bedrock", "openai-responses"): ("openai.gpt-5.6",),
    ("gemini", "gemini-contents"): ("gemini-3-pro", "gemini-flash-latest"),
    ("vertex", "gemini-contents"): ("gemini-2.5-pro", "gemini-flash"),
    ("vllm", "openai-chat"): ("any",),
    ("deepseek", "openai-chat"): ("deepseek-chat",),
    ("deepseek", "openai-responses"): ("deepseek-v4-pro",),
    ("deepseek", "anthropic-messages"): ("deepseek-flash",),
    ("mistral", "openai-chat"): ("magistral-medium",),
    ("moonshot", "openai-chat"): ("moonshot-v1-8k", "moonshot-v1-8k-vision-preview"),
    ("openai", "openai-responses"): ("gpt-5",),
    ("openai", "openai-chat"): ("gpt-4o-audio-preview",),
    ("openrouter", "openai-responses"): ("openai/gpt-5",),
    ("openrouter", "openai-chat"): (
        "anthropic/claude-sonnet-4.5", "openai/gpt-5", "deepseek/deepseek-v4-pro", "deepseek/deepseek-chat-v3",
        "x-ai/grok-4", "moonshotai/kimi-k2.5", "moonshotai/kimi-k2", "qwen/qwen3.5-plus", "z-ai/glm-4.7",
        "minimax/minimax-m2", "google/gemini-3-pro",
    ),
}  # fmt: skip
Target = tuple[str, str, str]
MODEL_TARGETS: list[Target] = [(provider, protocol, MODELS[provider]) for provider, protocol in TARGETS]
"""Every provider and protocol with its ordinary model, and with those that other facts hold for."""
MODEL_TARGETS += [(*place, model) for place, models in MORE.items() for model in models]


class Turn(Struct, frozen=True):
    """One recorded request of the demo and who answered it."""

    id: str
    prompt: Prompt
    settings: Settings


def turns() -> Iterator[Turn]:
    """Every request of the demo's threads, stored and read again as the thread's owner would."""
    for file in sorted(THREADS.glob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            exchange = msgspec.json.decode(line)
            read = wire_module(exchange["protocol"]).decode_request(exchange["request"], provider=exchange["provider"])
            stored = from_prompt(read.prompt)
            for message in stored:
                if message["role"] == "assistant":
                    message["content"]["metadata"] = {"provider": exchange["provider"], "modelId": exchange["model"]}
            system = tuple(message for message in read.prompt.messages if message.role == "system")
            yield Turn(exchange["id"], Prompt(system + to_prompt(stored).messages), read.settings)


def request_to(provider: str, protocol: str, turn: Turn, *, model_id: str = "") -> Encoded:
    """A turn's request to another provider, as its profile wants it."""
    model = ModelRef(provider, model_id or MODELS[provider])
    tools = tuple(tool for tool in turn.settings.tools if tool.raw is None)
    settings = Settings(model.model_id, max_tokens=1000, tools=tools)
    declared = [tool.name for tool in tools]
    call = Call(model_id=model.model_id, settings={}, declared=frozenset(declared))
    prompt, _, _, names = run_steps(
        CATALOGUE, turn.prompt, profile_for(model, protocol), Switches(), tool_names=declared, call=call
    )
    return request_for(provider, protocol, prompt, settings, tool_names=names, needs=call.needs)
