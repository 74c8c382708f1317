"""Keep tool calls and results out of what the model sees, never out of storage.

The input hooks give back filtered arrays (as views: the list keeps what it has) and note in their state what to hide;
the prompt hook hides it. Source: the processor specification's section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from memory.errors import InvalidOption
from memory.messages.prompt import (
    Message,
    Part,
    Prompt,
    Text,
    ToolCall,
    ToolResult,
    prompt_from_json,
    prompt_to_json_like,
)
from memory.messages.stored import StoredMessage, content_of, parts_of, tool_invocations
from memory.processors.base import (
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    PromptResult,
    PromptView,
)
from memory.processors.changes import Change, Loss, brief, spot_of

_SEEN, _STEPS = "toolCallFilterSeenToolCallIds", "toolCallFilterStepToolCallIds"
_HIDDEN, _FIRST_PROMPT = "toolCallFilterHidden", "toolCallFilterFirstPromptIds"


class ToolCallFilter:
    """Goes into the input processors.

    `exclude`: names of the tools to filter, exact; absent means all, an empty list none. `filter_after_tool_steps`:
    filter during the run too, keeping the last N steps that produced tool calls; negative counts as 0.
    `preserve_model_output`: put the compact output of a filtered result (`providerMetadata.mastra.modelOutput`) in
    its place. Raises InvalidOption naming the option.
    """

    id = "tool-call-filter"
    name = "ToolCallFilter"

    def __init__(
        self,
        *,
        exclude: Sequence[str] | None = None,
        filter_after_tool_steps: int | None = None,
        preserve_model_output: bool = False,
    ) -> None:
        if exclude is not None and (
            not isinstance(exclude, list | tuple) or not all(isinstance(name, str) for name in exclude)
        ):
            raise InvalidOption(f"exclude: expected a list of tool names, got {exclude!r}", field="exclude")
        steps = filter_after_tool_steps
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)):
            message = f"filter_after_tool_steps: expected a whole number, got {steps!r}"
            raise InvalidOption(message, field="filter_after_tool_steps")
        if not isinstance(preserve_model_output, bool):
            raise InvalidOption("preserve_model_output: expected true or false", field="preserve_model_output")
        self.exclude = None if exclude is None else tuple(exclude)
        self.filter_after_tool_steps = None if steps is None else max(steps, 0)
        self.preserve_model_output = preserve_model_output

    def process_input(self, args: ProcessInputArgs) -> PromptView:
        """All messages of the list without their filtered tool parts.

        A run that goes on after its tool results came keeps hiding what it hid when it began.
        """
        if _HIDDEN in args.state:
            return PromptView(args.message_list.messages)
        return self._view(args.message_list.messages or args.messages, args.state, keep=())

    def process_input_step(self, args: ProcessInputStepArgs) -> PromptView | None:
        """All messages without tool parts older than the last N tool-producing steps; None without that option."""
        if self.filter_after_tool_steps is None:
            return None
        seen: list[str] = args.state.setdefault(_SEEN, [])
        steps: list[list[str]] = args.state.setdefault(_STEPS, [])
        known = set(seen)
        new: list[str] = []
        for message in args.message_list.tagged("response"):
            for invocation in tool_invocations(content_of(message["content"])):
                call_id = str(invocation.get("toolCallId"))
                if call_id not in known:
                    known.add(call_id)
                    new.append(call_id)
        if new:
            seen += new
            steps.append(new)
        kept_steps = steps[-self.filter_after_tool_steps :] if self.filter_after_tool_steps else []
        keep = {call_id for step in kept_steps for call_id in step}
        return self._view(args.messages or args.message_list.messages, args.state, keep=keep)

    def _view(self, messages: Sequence[StoredMessage], state: dict[str, Any], *, keep: Any) -> PromptView:
        if self.exclude is not None and not self.exclude:
            return PromptView(messages)
        excluded_ids = {
            invocation.get("toolCallId")
            for message in messages
            for invocation in tool_invocations(content_of(message["content"]))
            if self._is_named(invocation)
        }

        def is_filtered(invocation: Mapping[str, Any]) -> bool:
            call_id = invocation.get("toolCallId")
            return call_id not in keep and (self._is_named(invocation) or call_id in excluded_ids)

        hidden: list[list[str]] = []
        out = PromptView()
        for message in messages:
            shown = self._shown(message, is_filtered, hidden)
            if shown is not None:
                out.append(shown)
        state[_HIDDEN] = hidden
        return out

    def _is_named(self, invocation: Mapping[str, Any]) -> bool:
        return self.exclude is None or invocation.get("toolName") in self.exclude

    def _shown(
        self, message: StoredMessage, is_filtered: Callable[[Mapping[str, Any]], bool], hidden: list[list[str]]
    ) -> StoredMessage | None:
        """The message without what is filtered (the same object if nothing is), or None when nothing remains."""
        content = content_of(message["content"])
        mine = [i for i in tool_invocations(content) if is_filtered(i)]
        if not mine:
            return message
        hidden += [[str(message.get("id") or ""), str(i.get("toolCallId"))] for i in mine]
        if not any(part.get("type") == "tool-invocation" for part in parts_of(content)):
            return message  # an old row with a legacy list only: the array keeps it, the prompt hides its calls
        new = dict(content)
        parts = []
        for part in content.get("parts") or []:
            invocation = part.get("toolInvocation") if isinstance(part, dict) else None
            if not (isinstance(invocation, dict) and part.get("type") == "tool-invocation" and is_filtered(invocation)):
                parts.append(part)
            elif self.preserve_model_output and (text := _compact_text(part)):
                parts.append({"type": "text", "text": f"{invocation.get('toolName')} result:\n{text}"})
        new["parts"] = parts
        legacy = content.get("toolInvocations")
        if isinstance(legacy, list):
            rest = [entry for entry in legacy if not (isinstance(entry, dict) and is_filtered(entry))]
            new.pop("toolInvocations")
            if rest:
                new["toolInvocations"] = rest
        spoken = content.get("content")
        if not parts and not new.get("toolInvocations") and not (isinstance(spoken, str) and spoken.strip()):
            return None
        return {**message, "content": new}

    # The prompt

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> PromptResult | None:
        """The prompt without the hidden pairs, in the kind it was given; None when nothing is hidden."""
        if self.exclude is not None and not self.exclude:
            return None
        prompt = args.prompt if isinstance(args.prompt, Prompt) else prompt_from_json(args.prompt)
        is_hidden = self._hidden_by_state(args.state) or self._hidden_by_prompt(prompt, args.state)
        changes: list[Change] = []
        out = _hide(prompt, is_hidden, changes, self.preserve_model_output, self.id)
        if out is prompt:
            return None
        same_kind = out if isinstance(args.prompt, Prompt) else prompt_to_json_like(out, prompt, args.prompt)
        return PromptResult(prompt=same_kind, changes=changes)

    @staticmethod
    def _hidden_by_state(state: Mapping[str, Any]) -> Callable[[Message, str, str], bool] | None:
        """What the input hooks of this run noted, by message and call id: an id alone may come again."""
        noted = state.get(_HIDDEN)
        if noted is None:
            return None
        hidden = {(message_id, call_id) for message_id, call_id in noted}
        return lambda message, call_id, _name: (message.id, call_id) in hidden

    def _hidden_by_prompt(self, prompt: Prompt, state: dict[str, Any]) -> Callable[[Message, str, str], bool]:
        """Without the input hooks: prior history, or all but the last N tool-producing assistant messages."""
        if self.filter_after_tool_steps is None:
            ids = [p.id if isinstance(p, ToolCall) else p.call_id for p in _tool_parts(prompt)]
            first = set(state.setdefault(_FIRST_PROMPT, ids))
            preserved = {call_id for call_id in ids if call_id not in first}
        else:
            producing = [
                [part.id for part in message.parts if isinstance(part, ToolCall)]
                for message in prompt.messages
                if message.role == "assistant" and any(isinstance(part, ToolCall) for part in message.parts)
            ]
            kept = producing[-self.filter_after_tool_steps :] if self.filter_after_tool_steps else []
            preserved = {call_id for step in kept for call_id in step}
        excluded = {
            part.id if isinstance(part, ToolCall) else part.call_id
            for part in _tool_parts(prompt)
            if self.exclude is None or part.name in self.exclude
        } - preserved
        return lambda _message, call_id, _name: call_id in excluded


def _tool_parts(prompt: Prompt) -> list[ToolCall | ToolResult]:
    return [part for message in prompt.messages for part in message.parts if isinstance(part, ToolCall | ToolResult)]


def _hide(
    prompt: Prompt,
    is_hidden: Callable[[Message, str, str], bool],
    changes: list[Change],
    preserve: bool,
    rule: str,
) -> Prompt:
    answers = prompt.answers()
    paired = {id(result) for result in answers.values()}
    reason = "Tool calls and results of this kind are kept from the model; they stay in the thread."
    out: list[Message] = []
    lost_tail = ""
    for message in prompt.messages:
        if isinstance(message.content, str):
            out.append(message)
            continue
        kept: list[Part] = []
        ends_in_loss = False
        for part in message.content:
            call_id = part.id if isinstance(part, ToolCall) else part.call_id if isinstance(part, ToolResult) else None
            if (
                call_id is None
                or not isinstance(part, ToolCall | ToolResult)
                or not is_hidden(message, call_id, part.name)
            ):
                kept.append(part)
                ends_in_loss = False
                continue
            if isinstance(part, ToolCall) or id(part) not in paired:
                result = answers.get(id(part)) if isinstance(part, ToolCall) else part
                compact = _model_output_text(result.options) if preserve and result is not None else ""
                after = f"{part.name} result:\n{compact}" if compact else None
                loss: Loss = "reshaped" if after else "content lost"
                changes.append(
                    Change(rule, reason, loss, spot_of(message, part), brief(part), after, severity="cosmetic")
                )
                if after:
                    kept.append(Text(after, None, part.at))
                ends_in_loss = not after
        if len(kept) == len(message.content) and all(a is b for a, b in zip(kept, message.content, strict=True)):
            shown: Message | None = message
        else:
            shown = replace(message, content=tuple(kept), role="assistant") if kept else None
            if shown is not None and message.role == "tool" and any(isinstance(p, ToolResult) for p in kept):
                shown = replace(message, content=tuple(kept))
        if shown is not None and shown.parted and lost_tail == message.id and out and out[-1].id == message.id:
            out[-1] = replace(out[-1], content=out[-1].parts + shown.parts, options=shown.options or out[-1].options)
        elif shown is not None:
            out.append(shown)
        if message.role == "assistant":
            lost_tail = message.id if ends_in_loss else ""
    return prompt.with_messages(out)


# Compact output


def _compact_text(part: Mapping[str, Any]) -> str:
    if part["toolInvocation"].get("state") != "result":
        return ""
    return _model_output_text(part.get("providerMetadata"))


def _model_output_text(options: Any) -> str:
    mastra = options.get("mastra") if isinstance(options, Mapping) else None
    value = mastra.get("modelOutput") if isinstance(mastra, Mapping) else None
    return "" if value is None else output_text(value)


def output_text(value: Any) -> str:
    """A model output as text: texts as they are, lists by line, media as a short note; empty for what says nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return _json(value)
    if isinstance(value, list | tuple):
        texts = [text for item in value if (text := output_text(item))]
        return "\n".join(texts) if texts else _json(value)
    if isinstance(value, Mapping):
        if value.get("type") == "text":
            for key in ("value", "text"):
                if isinstance(value.get(key), str):
                    return str(value[key])
        if value.get("type") in ("media", "image", "file", "image-data", "file-data") and isinstance(
            value.get("data"), str
        ):
            return f"[{value.get('mediaType') or value.get('mimeType') or 'media'}]"
        if "value" in value:
            return output_text(value["value"])
        if isinstance(value.get("text"), str):
            return str(value["text"])
    return _json(value)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
