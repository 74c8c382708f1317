"""The three lists of an agent's processors and how their hooks are asked.

Prompt hooks run from the input list, `process_output_result` from the output list, `process_api_error` from input,
output and error lists in this order, once per object. Source: the processor specification's section 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from memory.errors import ExternalMessageList, Tripwire
from memory.messages.lists import MessageList, Source
from memory.messages.prompt import Prompt, prompt_from_json, prompt_to_json
from memory.messages.stored import StoredMessage
from memory.processors.base import (
    INPUT_HOOKS,
    AbortSignal,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessOutputResultArgs,
    PromptResult,
    PromptView,
    Retry,
    Switches,
    TurnEnd,
    has_hook,
)
from memory.processors.changes import Change, Finding, changes_by_comparison
from memory.processors.compat.processor import ProviderHistoryCompat
from memory.processors.config import snake_case
from memory.processors.history import MessageHistory
from memory.processors.retry import StreamErrorRetryProcessor
from memory.processors.storage import HistoryStorage
from memory.processors.tool_filter import ToolCallFilter

log = logging.getLogger(__name__)

_OURS = (MessageHistory, ToolCallFilter, ProviderHistoryCompat, StreamErrorRetryProcessor)


class ProcessorFailure(Struct, frozen=True):
    """A processor raised something ordinary and was skipped."""

    processor_id: str
    hook: str
    message: str


class Asked(Struct, frozen=True):
    """Who asked for another attempt, and how."""

    processor_id: str
    retry: Retry


class StepSettings(Struct):
    """What a step hook may change for the coming call."""

    model: Any = None
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    active_tools: Sequence[str] | None = None
    provider_options: Mapping[str, Any] = {}
    model_settings: Mapping[str, Any] = {}


class Chain:
    """An agent's processors for one run, with their states and counts.

    `state` and `counts` are what a run keeps between requests: plain values by processor id.
    """

    def __init__(
        self,
        *,
        input: Sequence[Any] = (),
        output: Sequence[Any] = (),
        error: Sequence[Any] = (),
        request_context: Mapping[str, Any] | None = None,
        switches: Switches | None = None,
        state: dict[str, dict[str, Any]] | None = None,
        counts: dict[str, int] | None = None,
    ) -> None:
        self.input, self.output, self.error = tuple(input), tuple(output), tuple(error)
        self.request_context = dict(request_context or {})
        self.switches = switches or Switches()
        self.state = {} if state is None else state
        self.counts = {} if counts is None else counts
        self.failures: list[ProcessorFailure] = []

    @classmethod
    def of_short_form(cls, processors: Sequence[Any], **more: Any) -> Chain:
        """Every processor goes into every list whose hook it implements."""
        input, output, error = short_form(processors)
        return cls(input=input, output=output, error=error, **more)

    def storage(self) -> HistoryStorage | None:
        """Where a lasting repair is written back: the storage of the first history that may write."""
        memory = self.request_context.get("MastraMemory")
        config = memory.get("memoryConfig") if isinstance(memory, Mapping) else None
        if isinstance(config, Mapping) and config.get("readOnly"):
            return None
        return next((p.storage for p in (*self.input, *self.output) if isinstance(p, MessageHistory)), None)

    def error_walk(self) -> Iterator[Any]:
        """Processors with an error hook: input, output, error list, each object once."""
        seen: set[int] = set()
        for processor in (*self.input, *self.output, *self.error):
            if id(processor) not in seen and has_hook(processor, "process_api_error"):
                seen.add(id(processor))
                yield processor

    def _common(self, processor: Any, messages: MessageList) -> dict[str, Any]:
        return {
            "message_list": messages,
            "state": self.state.setdefault(processor.id, {}),
            "request_context": self.request_context,
            "retry_count": self.counts.get(processor.id, 0),
        }

    def _failed(self, processor: Any, hook: str, error: Exception) -> None:
        log.exception("processor %s failed in %s", processor.id, hook)
        self.failures.append(ProcessorFailure(processor.id, hook, f"{type(error).__name__}: {error}"))

    def _not_understood(self, processor: Any, hook: str, answer: Any, expected: str) -> None:
        message = f"answered {type(answer).__name__}, expected {expected}"
        log.warning("processor %s in %s %s", processor.id, hook, message)
        self.failures.append(ProcessorFailure(processor.id, hook, message))

    def _ask(self, processor: Any, hook: str, args: Any) -> Any:
        """What a hook answers. One's own processor that raises is noted and skipped; ours reach the caller."""
        try:
            return getattr(processor, hook)(args)
        except Tripwire as tripwire:
            tripwire.processor_id = tripwire.processor_id or processor.id
            raise
        except Exception as failure:
            if isinstance(processor, _OURS):
                raise
            self._failed(processor, hook, failure)
            return None

    # Before the calls

    def process_input(self, messages: MessageList) -> None:
        """Ask every input hook once, before the first call."""
        for processor in self.input:
            if not has_hook(processor, "process_input"):
                continue
            args = ProcessInputArgs(
                messages=messages.tagged("input"),
                system_messages=messages.system_texts,
                **self._common(processor, messages),
            )
            answer = self._with_system(self._ask(processor, "process_input", args), messages)
            if isinstance(answer, Mapping):
                answer = answer.get("message_list", answer.get("messages"))
            self._take(processor, "process_input", answer, args.messages, messages)

    def process_input_step(
        self, messages: MessageList, settings: StepSettings, *, step_number: int, steps: Sequence[Any] = ()
    ) -> None:
        """Ask every step hook before a call; it may change the list and the settings of the step."""
        for processor in self.input:
            if not has_hook(processor, "process_input_step"):
                continue
            args = ProcessInputStepArgs(
                messages=_shown(processor, messages),
                step_number=step_number,
                steps=steps,
                **{name: getattr(settings, name) for name in _SETTINGS},
                **self._common(processor, messages),
            )
            answer = self._with_system(self._ask(processor, "process_input_step", args), messages)
            if isinstance(answer, Mapping):
                for name in _SETTINGS:
                    if name in answer:
                        setattr(settings, name, answer[name])
                answer = answer.get("message_list", answer.get("messages"))
            self._take(processor, "process_input_step", answer, args.messages, messages)

    def process_llm_request(
        self,
        prompt: Prompt | list[dict[str, Any]],
        messages: MessageList,
        *,
        model: Any,
        protocol: str = "",
        step_number: int = 0,
        steps: Sequence[Any] = (),
        tool_names: Sequence[str] = (),
        call_settings: Mapping[str, Any] | None = None,
    ) -> PromptResult:
        """The prompt of one call, in the kind it was given, through every prompt hook; each sees the one before it."""
        is_json = not isinstance(prompt, Prompt)
        current = prompt if isinstance(prompt, Prompt) else prompt_from_json(prompt)
        changes: list[Change] = []
        findings: list[Finding] = []
        names: dict[str, str] = {}
        needs: dict[str, Any] = {}
        response: Any = None
        for processor in self.input:
            if not has_hook(processor, "process_llm_request"):
                continue
            args = ProcessLLMRequestArgs(
                prompt=current,
                model=model,
                protocol=protocol,
                step_number=step_number,
                steps=steps,
                tool_names=tool_names,
                call_settings=call_settings or {},
                switches=self.switches,
                **self._common(processor, messages),
            )
            answer = self._ask(processor, "process_llm_request", args)
            if answer is None:
                continue
            result = self._prompt_result(processor, current, answer)
            if result is None:
                continue
            current = result.prompt
            changes += result.changes
            findings += result.findings
            names.update(result.tool_names)
            needs.update(result.needs)
            response = result.response if response is None else response
        return PromptResult(
            prompt=prompt_to_json(current) if is_json else current,
            changes=changes,
            findings=findings,
            tool_names=names,
            needs=needs,
            response=response,
        )

    def _prompt_result(self, processor: Any, prompt: Prompt, answer: Any) -> PromptResult | None:
        """What a prompt hook answered, with a Prompt; None for what can't be understood, which is noted.

        That the key `prompt` is there counts, not what is in it. Changes are found by comparison where the processor
        names none.
        """
        if isinstance(answer, Mapping) and ("prompt" in answer or answer.get("response") is not None):
            answer = PromptResult(prompt=answer.get("prompt", prompt), response=answer.get("response"))
        if not isinstance(answer, PromptResult):
            if answer != {}:
                self._not_understood(processor, "process_llm_request", answer, "a prompt")
            return None
        try:
            new = answer.prompt if isinstance(answer.prompt, Prompt) else prompt_from_json(answer.prompt)
        except (TypeError, ValueError, AttributeError) as failure:
            self._failed(processor, "process_llm_request", failure)
            return None
        changes = answer.changes
        if not isinstance(processor, _OURS) and not changes:
            changes = changes_by_comparison(processor.id, prompt, new)
        return PromptResult(
            prompt=new,
            changes=changes,
            findings=answer.findings,
            tool_names=answer.tool_names,
            needs=answer.needs,
            response=answer.response,
        )

    # After a call

    def process_api_error(
        self,
        error: Any,
        messages: MessageList,
        *,
        model: Any = None,
        protocol: str = "",
        tool_names: Sequence[str] = (),
        call_settings: Mapping[str, Any] | None = None,
        step_number: int = 0,
        steps: Sequence[Any] = (),
        message_id: str = "",
        abort_signal: AbortSignal | None = None,
    ) -> Asked | None:
        """The first processor that asks for another attempt. One that raises is logged, noted and skipped."""
        for processor in self.error_walk():
            counts = {key.partition("|")[2]: n for key, n in self.counts.items() if key.startswith(f"{processor.id}|")}
            args = ProcessAPIErrorArgs(
                error=error,
                messages=_shown(processor, messages),
                model=model,
                protocol=protocol,
                tool_names=tool_names,
                call_settings=call_settings or {},
                step_number=step_number,
                steps=steps,
                message_id=message_id,
                abort_signal=abort_signal,
                rule_counts=counts,
                switches=self.switches,
                **self._common(processor, messages),
            )
            try:
                answer = processor.process_api_error(args)
            except Tripwire as tripwire:
                tripwire.processor_id = tripwire.processor_id or processor.id
                raise
            except Exception as failure:  # noqa: BLE001 - logged and noted; the walk goes on
                self._failed(processor, "process_api_error", failure)
                continue
            if isinstance(answer, Retry):
                return Asked(processor.id, answer)
            if isinstance(answer, Mapping) and answer.get("retry") is True:
                return Asked(processor.id, Retry(reason=f"{processor.id} asked for it.", matched=processor.id))
            if answer is not None and not isinstance(answer, Mapping):
                self._not_understood(processor, "process_api_error", answer, "a Retry")
        return None

    def granted(self, asked: Asked) -> None:
        """Count a granted retry for its processor, and for its rule where it has one."""
        self.counts[asked.processor_id] = self.counts.get(asked.processor_id, 0) + 1
        if asked.retry.rule:
            key = f"{asked.processor_id}|{asked.retry.rule}"
            self.counts[key] = self.counts.get(key, 0) + 1

    def step_succeeded(self) -> None:
        """Only failures in a row add up; what a rule repaired counts for the whole run."""
        for key in [key for key in self.counts if "|" not in key]:
            del self.counts[key]

    def process_output_result(self, messages: MessageList, result: TurnEnd) -> None:
        """Ask every output hook once, after the run."""
        for processor in self.output:
            if not has_hook(processor, "process_output_result"):
                continue
            args = ProcessOutputResultArgs(
                messages=_shown(processor, messages), result=result, **self._common(processor, messages)
            )
            answer = self._ask(processor, "process_output_result", args)
            self._take(processor, "process_output_result", answer, args.messages, messages, source="response")

    # Answers

    @staticmethod
    def _with_system(answer: Any, messages: MessageList) -> Any:
        """The answer with its keys in snake_case; its system messages are taken."""
        if not isinstance(answer, Mapping):
            return answer
        answer = {snake_case(key): value for key, value in answer.items()}
        if isinstance(answer.get("system_messages"), list | tuple):
            messages.set_system(answer["system_messages"])
        return answer

    def _take(
        self,
        processor: Any,
        hook: str,
        answer: Any,
        given: list[StoredMessage],
        messages: MessageList,
        *,
        source: Source = "input",
    ) -> None:
        """Apply what an input or output hook returned. A view is for the model only and changes nothing here.

        An array stands for all messages of the list. The very array the hook was given stands for what it held.
        """
        if answer is None or answer is messages or isinstance(answer, PromptView):
            return
        if isinstance(answer, MessageList):
            raise ExternalMessageList("a processor returned another message list than the one it was given")
        if not isinstance(answer, list | tuple):
            self._not_understood(processor, hook, answer, "messages or the list")
            return
        held = messages.tagged("input") if answer is given and hook == "process_input" else messages.messages
        messages.apply(answer, [message["id"] for message in held], source=source)


def _shown(processor: Any, messages: MessageList) -> list[StoredMessage]:
    """The messages for a hook. Ours look into the list themselves, where what nobody reads stays text."""
    return [] if type(processor) in _OURS else messages.messages


_SETTINGS = StepSettings.__struct_fields__


def short_form(processors: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Input, output and error list: each processor in every list whose hook it implements."""
    return (
        [p for p in processors if has_hook(p, *INPUT_HOOKS)],
        [p for p in processors if has_hook(p, "process_output_result")],
        [p for p in processors if has_hook(p, "process_api_error")],
    )
