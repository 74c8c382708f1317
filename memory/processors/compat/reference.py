"""The nine rules of the reference system, each with its own test of the model.

A change carries the catalogue's rule id; the reference's name is that rule's family. Source: the processor
specification's sections 1.3 and 1.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.messages.names import ModelRef, provider_id
from memory.messages.prompt import Message, Options, Part, Prompt, Reasoning, ToolCall, ToolResult, own_origin
from memory.messages.stored import StoredMessage, content_of, parts_of
from memory.messages.typed import origin_of
from memory.processors.base import ProcessLLMRequestArgs
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.tags import rename_reminders
from memory.processors.compat.rule import model_ref_of

Rewritten = tuple[Prompt, list[Change]]
Rewrite = Callable[[Prompt, ProcessLLMRequestArgs, str], Rewritten]


class ReferenceRule(Struct, frozen=True):
    """A proactive rule: `rule` is the catalogue's id, `rewrite` the same prompt where it does not act."""

    rule: str
    rewrite: Rewrite


def matches(model: Any, name: str) -> bool:
    """Whether a model in any form is of this provider: `name/…` and `name:…` as text, `name`, `name.…` as provider."""
    if isinstance(model, ModelRef):
        model = {"provider": model.provider, "modelId": model.model_id}
    if isinstance(model, str):
        return re.match(rf"{name}[/:]", model, re.I) is not None
    if isinstance(model, list | tuple):
        return any(matches(_entry(entry), name) for entry in model)
    if isinstance(model, Mapping):
        provider, model_id = model.get("provider"), model.get("modelId")
        if isinstance(provider, str) and re.match(rf"{name}($|[.\-])", provider, re.I):
            return True
        return isinstance(model_id, str) and re.match(rf"{name}[/:]", model_id, re.I) is not None
    return False


def _entry(entry: Any) -> Any:
    inner = entry.get("model") if isinstance(entry, Mapping) else None
    return entry if inner is None else inner


def _provider_of(model: Any) -> str | None:
    """The exact provider of a resolved model object; for a list the first entry that has one."""
    if isinstance(model, ModelRef):
        return model.provider or None
    if isinstance(model, list | tuple):
        return next((found for entry in model if (found := _provider_of(_entry(entry)))), None)
    provider = model.get("provider") if isinstance(model, Mapping) else None
    return provider if isinstance(provider, str) and provider else None


# Rule 1: tools another provider ran itself

_FAMILIES = {"anthropic": ("anthropic",), "openai": ("openai", "azure"), "google": ("google", "vertex", "gemini")}


def _family(model: Any) -> str | None:
    for family, names in _FAMILIES.items():
        if any(matches(model, name) for name in names):
            return family
    return None


def _part_family(options: Options | None) -> str | None:
    for family, names in _FAMILIES.items():
        if options and any(name in options for name in names):
            return family
    return None


def _strip_foreign_hosted_tools(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    target = _family(args.model)
    foreign = {
        part.id
        for message in prompt.messages
        if target and message.role == "assistant" and not isinstance(message.content, str)
        for part in message.content
        if isinstance(part, ToolCall) and part.provider_executed and _part_family(part.options) not in (None, target)
    }
    if not foreign:
        return prompt, []
    changes: list[Change] = []

    def keep(message: Message, part: Part) -> Part | None:
        if isinstance(part, ToolCall) and part.provider_executed and part.id in foreign:
            reason = "Another provider ran this tool itself; its call and result mean nothing to this one."
            changes.append(Change(rule, reason, "content lost", spot_of(message, part), brief(part)))
            return None
        if isinstance(part, ToolResult) and part.call_id in foreign:
            return None
        return part

    return prompt.map_parts(keep, roles=("assistant", "tool")), changes


# Rules 3 to 6 and 9: reasoning


def _drop_reasoning(
    prompt: Prompt,
    rule: str,
    reason: str,
    is_refused: Callable[[Reasoning], bool],
    *,
    skip: Callable[[int, Message], bool] = lambda _i, _m: False,
) -> Rewritten:
    changes: list[Change] = []
    messages: list[Message] = []
    for i, message in enumerate(prompt.messages):
        if message.role != "assistant" or isinstance(message.content, str) or skip(i, message):
            messages.append(message)
            continue
        dropped = [part for part in message.content if isinstance(part, Reasoning) and is_refused(part)]
        if not dropped:
            messages.append(message)
            continue
        changes += [Change(rule, reason, "reasoning hidden", spot_of(message, part), brief(part)) for part in dropped]
        kept = tuple(part for part in message.content if not any(part is gone for gone in dropped))
        if kept:
            messages.append(replace(message, content=kept))
    return prompt.with_messages(messages), changes


def _strip_for_cerebras(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    if not matches(args.model, "cerebras"):
        return prompt, []
    return _drop_reasoning(prompt, rule, "Cerebras does not take reasoning in a request.", lambda _part: True)


def _strip_for_mantle(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    entries = args.model if isinstance(args.model, list | tuple) else [args.model]
    if not any(_is_mantle_gpt(_entry(entry), args.protocol) for entry in entries):
        return prompt, []
    return _drop_reasoning(prompt, rule, "GPT-OSS on Bedrock does not take reasoning in a request.", lambda _part: True)


def _is_mantle_gpt(model: Any, protocol: str) -> bool:
    """That endpoint is `bedrock-mantle.chat` to the reference; to us it is Bedrock with the chat protocol."""
    if isinstance(model, ModelRef):
        is_mantle, model_id = model.provider == "bedrock" and protocol == "openai-chat", model.model_id
    else:
        is_mantle = isinstance(model, Mapping) and model.get("provider") == "bedrock-mantle.chat"
        model_id = str(model.get("modelId") or "") if is_mantle else ""
    return is_mantle and model_id.startswith("openai.gpt-oss")


def _protected(prompt: Prompt) -> int:
    """Index of the assistant message of the open turn, or -1: a prompt that ends with it, or with it and results."""
    for i in range(len(prompt.messages) - 1, -1, -1):
        role = prompt.messages[i].role
        if role == "assistant":
            return i
        if role != "tool":
            return -1
    return -1


def _anthropic_options(part: Reasoning) -> Mapping[str, Any]:
    value = part.options.get("anthropic") if part.options else None
    return value if isinstance(value, Mapping) else {}


def _has_other_stamp(part: Reasoning, target: ModelRef) -> bool:
    """Whether another origin than the target's wrote the part. Claude is served by Vertex and Bedrock too."""
    own = ("anthropic", "vertex", "bedrock", provider_id(target.provider))
    return part.origin is not None and part.origin.provider not in own


def _strip_empty_signed(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    if not matches(args.model, "anthropic"):
        return prompt, []
    protected = _protected(prompt)
    target = model_ref_of(args.model)

    def is_refused(part: Reasoning) -> bool:
        signature = _anthropic_options(part).get("signature")
        if part.text or not isinstance(signature, str) or not signature:
            return False
        is_stamped = part.origin is not None and part.origin.model_id == target.model_id
        return not is_stamped or _has_other_stamp(part, target)

    reason = "A signed thinking block without text is refused in a completed turn."
    return _drop_reasoning(prompt, rule, reason, is_refused, skip=lambda i, _m: i == protected)


def _is_native(part: Reasoning, target: ModelRef) -> bool:
    return part.options is not None and "anthropic" in part.options and not _has_other_stamp(part, target)


def _strip_foreign(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    if not matches(args.model, "anthropic"):
        return prompt, []
    protected, target = _protected(prompt), model_ref_of(args.model)

    def skip(i: int, message: Message) -> bool:
        return i == protected and any(isinstance(p, Reasoning) and _is_native(p, target) for p in message.parts)

    reason = "Claude takes only reasoning it wrote itself. It stays in the thread."
    return _drop_reasoning(prompt, rule, reason, lambda part: not _is_native(part, target), skip=skip)


def _strip_foreign_signed(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    target = _provider_of(args.model)
    if target is None:
        return prompt, []
    seals = set(_foreign_seals(args.message_list.messages, provider_id(target)))
    if not seals:
        return prompt, []

    def is_refused(part: Reasoning) -> bool:
        options = _anthropic_options(part)
        seal = options.get("signature") or options.get("redactedData")
        return isinstance(seal, str) and seal in seals

    reason = f"The turn was written by another provider than {target}; its signature is refused."
    return _drop_reasoning(prompt, rule, reason, is_refused)


def _foreign_seals(messages: Sequence[StoredMessage], target: str) -> Iterator[str]:
    """Signatures and sealed data that others than the target wrote: by the part's own stamp, else its turn's."""
    for message in messages:
        if message.get("role") != "assistant":
            continue
        content = content_of(message.get("content"))
        turn = origin_of(content)
        for part in parts_of(content):
            metadata = part.get("providerMetadata")
            if part.get("type") != "reasoning" or not isinstance(metadata, Mapping):
                continue
            origin, anthropic = own_origin(metadata) or turn, metadata.get("anthropic")
            if origin is not None and origin.provider != target and isinstance(anthropic, Mapping):
                yield from (v for key in ("signature", "redactedData") if isinstance(v := anthropic.get(key), str))


# Rule 7: a tag that Azure's filter takes for an injection

_AZURE = re.compile(r"^(?:azure|azure-openai)(?:\.[a-z0-9_-]+)?$", re.I)
_AZURE_TEXT = re.compile(r"(?:azure|azure-openai)[/:]", re.I)


def _is_azure(model: Any) -> bool:
    if isinstance(model, ModelRef):
        model = {"provider": model.provider, "modelId": model.model_id}
    if isinstance(model, str):
        return _AZURE_TEXT.match(model) is not None
    if isinstance(model, list | tuple):
        return any(_is_azure(_entry(entry)) for entry in model)
    if isinstance(model, Mapping):
        provider, model_id = model.get("provider"), model.get("modelId")
        if isinstance(provider, str) and _AZURE.match(provider):
            return True
        return isinstance(model_id, str) and _AZURE_TEXT.match(model_id) is not None
    return False


def _rename_reminders(prompt: Prompt, args: ProcessLLMRequestArgs, rule: str) -> Rewritten:
    return rename_reminders(prompt, rule) if _is_azure(args.model) else (prompt, [])


PROACTIVE: tuple[ReferenceRule, ...] = (
    ReferenceRule("anthropic-server-tool-id", _strip_foreign_hosted_tools),
    ReferenceRule("cerebras-reasoning-content", _strip_for_cerebras),
    ReferenceRule("anthropic-thinking-empty", _strip_empty_signed),
    ReferenceRule("anthropic-thinking-signature-missing", _strip_foreign),
    ReferenceRule("anthropic-thinking-signature-invalid", _strip_foreign_signed),
    ReferenceRule("azure-content-filter", _rename_reminders),
    ReferenceRule("bedrock-reasoning-foreign", _strip_for_mantle),
)
"""Rules 1, 3 to 7 and 9, in order; 2 and 8 are reactive (`repairs`)."""
