"""The run loop: calls, decisions, waits, output. Clock, waiting, network and ledger come in as arguments.

A failed call is held back until the error hooks have been asked: a retried failure is never visible to the caller.
Granted retries do not count as steps; when nothing more is granted the last error is raised. Source: the processor
specification's section 0.2.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memory.errors import InvalidInput, ProviderError, RunCancelled, Tripwire
from memory.messages.from_prompt import from_prompt
from memory.messages.lists import MessageList
from memory.messages.prompt import Message, Prompt, Text, ToolCall
from memory.messages.stored import StoredMessage, timestamp
from memory.processors.base import AbortSignal, Retry, TurnEnd, model_text
from memory.processors.calls import AttemptRecord, Call, Model, NoRecorder, Pause, Recorder, Turn, Wait
from memory.processors.chain import Asked, Chain, StepSettings

DEFAULT_RETRY_CAP = 10
_MAY_REPEAT = (408, 409, 425, 429)


class _NeverSet:
    def is_set(self) -> bool:
        return False


def run_turn(
    chain: Chain,
    messages: MessageList,
    model: Model,
    *,
    wait: Wait,
    recorder: Recorder | None = None,
    abort_signal: AbortSignal | None = None,
    max_processor_retries: int | None = None,
    model_max_retries: int = 0,
    max_steps: int = 5,
    execute_tool: Callable[[ToolCall], Any] | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    first_step: int = 0,
    fallbacks: Sequence[NextModel] = (),
) -> Turn:
    """Answer one turn. `messages` holds the input; remembered rows come in through the input hooks.

    Client tools are executed by the caller: a reply with calls ends the turn with `finish_reason` tool-calls, unless
    `execute_tool` is given (then up to `max_steps` calls of the model are made). `first_step` is above 0 when the
    results of an earlier step's calls came in with this request.
    Raises the last error when no retry is granted, Tripwire when a processor ended the run, RunCancelled.
    """
    loop = TurnLoop(
        chain,
        messages,
        model,
        recorder=recorder,
        abort_signal=abort_signal,
        max_processor_retries=max_processor_retries,
        model_max_retries=model_max_retries,
        clock=clock,
        first_step=first_step,
        fallbacks=fallbacks,
    )
    try:
        loop.begin()
        while True:
            call = loop.next_call()
            if call is not None:
                try:
                    reply = call.model.send(call.request)
                except Exception as error:  # noqa: BLE001 - the loop raises it again where nothing is granted
                    loop.wait(loop.failed(call, error), wait, error)
                    continue
                loop.answered(call, reply)
            calls = loop.open_calls()
            if not calls or execute_tool is None or loop.step - first_step >= max_steps:
                break
            messages.add(
                [{"role": "tool", "content": [_tool_result(call, execute_tool(call)) for call in calls]}], "response"
            )
            messages.begin_step(model_text(model.ref))
    except Tripwire:
        raise
    except Exception as error:
        loop.break_off(error)
        raise
    return loop.finish()


def _cap(chain: Chain, given: int | None) -> int:
    """How many retries processors may be granted in a row: the given cap, else 10 where anyone can ask, else none."""
    if given is not None:
        return given
    return DEFAULT_RETRY_CAP if any(True for _ in chain.error_walk()) else 0


def _tool_result(call: ToolCall, result: Any) -> dict[str, Any]:
    output = {"type": "text", "value": result} if isinstance(result, str) else {"type": "json", "value": result}
    return {"type": "tool-result", "toolCallId": call.id, "toolName": call.name, "output": output}


NextModel = Callable[[], "Model | None"]
"""A model to go on with; None when it can't be called."""


class TurnLoop:
    """A turn between its calls: the next request, what becomes of it, and how the turn ends.

    Whoever drives it makes the calls and does the waiting. Between two calls `kept` is all that a new loop needs to go
    on where this one was, after the input hooks have run again. `steps` are the replies so far.
    """

    def __init__(
        self,
        chain: Chain,
        messages: MessageList,
        model: Model,
        *,
        recorder: Recorder | None = None,
        abort_signal: AbortSignal | None = None,
        max_processor_retries: int | None = None,
        model_max_retries: int = 0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        first_step: int = 0,
        fallbacks: Sequence[NextModel] = (),
    ) -> None:
        self.chain, self.messages, self.model = chain, messages, model
        self.recorder: Recorder = recorder or NoRecorder()
        self.signal = abort_signal or _NeverSet()
        self.cap, self.inner_cap, self.clock = _cap(chain, max_processor_retries), model_max_retries, clock
        self.fallbacks = fallbacks
        self.step = first_step
        self.number = 0
        self.usage: dict[str, int] = {}
        self.steps: list[Any] = []
        self.message_id = _new_id()
        self._granted = self._inner = self._fallen = 0
        self._following: Call | None = None
        self._begun: dict[str, StoredMessage] = {}

    # The turn's way

    def begin(self, kept: Mapping[str, Any] | None = None) -> None:
        """Ask the input hooks; with what an earlier loop `kept`, go on where it was."""
        self.chain.process_input(self.messages)
        if self.step:
            self.messages.begin_step(model_text(self.model.ref))
        self._begun = {message["id"]: message for message in self.messages.held}
        if not kept:
            return
        self.number, self.usage, self.message_id = kept["number"], dict(kept["usage"]), kept["message_id"]
        self._granted, self._inner = kept["granted"], kept["inner"]
        while self._fallen < kept["fallen"]:
            self._fall_back()
        self.messages.put_back([(source, message) for source, message in kept["changed"]], kept["gone"])

    def kept(self) -> dict[str, Any]:
        """What a new loop needs to go on: counts, and messages that differ from what the input hooks gave."""
        entries = self.messages.entries
        changed = [
            (entry.source, entry.message)
            for entry in entries
            if entry.source != "memory" and self._begun.get(entry.held["id"]) is not entry.held
        ]
        present = {entry.held["id"] for entry in entries}
        return {
            "number": self.number,
            "usage": self.usage,
            "message_id": self.message_id,
            "granted": self._granted,
            "inner": self._inner,
            "fallen": self._fallen,
            "changed": changed,
            "gone": [message_id for message_id in self._begun if message_id not in present],
        }

    def next_call(self) -> Call | None:
        """The next attempt, on record before it is made; None when a processor had the reply, which is taken."""
        self._check_cancelled()
        call, self._following = self._following or self._prepared(), None
        if call.result.response is not None:
            self._taken(call.result.response, call.model)
            return None
        self.number += 1
        call.number, call.started_at = self.number, self.clock()
        self.recorder.opened(call)
        return call

    def reopened(self, sha256: str, started_at: datetime) -> Call:
        """The attempt that was open when an earlier loop ended, which sent a body of this hash."""
        call = self._prepared()
        call.number, call.sha256, call.started_at = self.number, sha256, started_at
        return call

    def answered(self, call: Call, reply: Any) -> None:
        """Take the reply of a call."""
        self._record(call, "answered", reply=reply)
        self._taken(reply, call.model)

    def failed(self, call: Call, error: Exception) -> Pause:
        """Decide about a failed call: how long to wait before the next one. Raises the error when there is none."""
        following: Call | None = None
        asked: Asked | None = None
        try:
            asked, reason = self._decide(error)
            if asked is not None:
                self._inner = self._inner + 1 if asked.processor_id == _INNER else 0
                self._granted += asked.processor_id != _INNER
                following, reason = self._after(call, error, asked)
            decision = "cancelled" if self.signal.is_set() else "retry" if following else "give-up"
            if decision == "give-up" and isinstance(error, ProviderError) and self._fall_back():
                decision = "fallback"
                reason = f"{reason} {model_text(self.model.ref)} is tried next."
        except Exception as failure:
            decision = "stopped" if isinstance(failure, Tripwire) else "give-up"
            reason = f"The next attempt could not be made: {failure}"
            self._record(call, decision, error=error, asked=asked, reason=reason)
            raise
        self._record(call, decision, error=error, asked=asked, reason=reason)
        self._check_cancelled(error)
        if decision == "give-up":
            raise error
        self._following = following
        seconds = asked.retry.delay_ms / 1000 if asked is not None and decision == "retry" else 0
        return Pause(max(0.0, seconds), call.number, reason)

    def wait(self, pause: Pause, wait: Wait, error: Exception) -> None:
        """Wait in this thread. Raises RunCancelled."""
        if pause.seconds > 0:
            before = self.clock()
            cancelled = wait(pause.seconds)
            self.recorder.waited(pause.number, (self.clock() - before).total_seconds() * 1000)
            if cancelled:
                raise RunCancelled("cancelled during a wait", attempt_count=self.number) from error
        self._check_cancelled(error)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of client tools in the last reply."""
        return tuple(p for p in self.steps[-1].parts if isinstance(p, ToolCall) and not p.provider_executed)

    def finish(self) -> Turn:
        """Ask the output hooks; how the turn ended."""
        reply = self.steps[-1]
        text = "".join(part.text for part in reply.parts if isinstance(part, Text))
        end = TurnEnd(text=text, finish_reason=reply.finish_reason, usage=self.usage, steps=self.steps)
        self.chain.process_output_result(self.messages, end)
        return Turn(
            text=text,
            finish_reason=reply.finish_reason,
            tool_calls=self.open_calls(),
            usage=self.usage,
            attempt_count=self.number,
            step_count=self.step,
        )

    def break_off(self, error: Exception) -> None:
        """End a failed turn: what came before the failure is saved; one without output leaves the thread as it was."""
        self._take_partial(error)
        self.chain.process_output_result(
            self.messages, TurnEnd(finish_reason="error", usage=self.usage, steps=self.steps)
        )

    # One attempt

    def _check_cancelled(self, cause: Exception | None = None) -> None:
        if self.signal.is_set():
            raise RunCancelled("cancelled", attempt_count=self.number) from cause

    def _fall_back(self) -> bool:
        """Go on with the next model that can be called, with a budget of its own; False when there is none."""
        while self._fallen < len(self.fallbacks):
            self._fallen += 1
            model = self.fallbacks[self._fallen - 1]()
            if model is not None:
                self.model = model
                self._granted = self._inner = 0
                self.chain.step_succeeded()
                return True
        return False

    def _prepared(self) -> Call:
        """The request that the list makes now, through the hooks of a step and of a request."""
        settings = StepSettings(model=self.model.ref)
        self.chain.process_input_step(self.messages, settings, step_number=self.step, steps=self.steps)
        model = self.model
        if settings != StepSettings(model=self.model.ref):
            for_step = getattr(self.model, "for_step", None)
            if for_step is None:
                raise InvalidInput("a processor changed the settings of a step, which this model does not allow")
            model = for_step(settings)
        result = self.chain.process_llm_request(
            self.messages.to_prompt(),
            self.messages,
            model=model.ref,
            protocol=model.protocol,
            step_number=self.step,
            steps=self.steps,
            tool_names=model.tool_names,
            call_settings=model.call_settings,
        )
        return Call(0, model, result, model.encode(result), self.messages.held, self.clock())

    def _after(self, call: Call, error: Exception, asked: Asked) -> tuple[Call | None, str]:
        """The next attempt of a granted retry, unless it would only say again what was refused; and why."""
        if asked.processor_id != _INNER:
            self.chain.granted(asked)
        self._repair(asked.retry)
        following = self._prepared()
        status = error.status_code if isinstance(error, ProviderError) else None
        is_refusal = status is not None and 400 <= status < 500 and status not in _MAY_REPEAT
        sent = call.sha256 or _digest(call.request)
        if is_refusal and not asked.retry.allows_same_body and _digest(following.request) == sent:
            return None, f"The next request would be the very one that was refused with {status}."
        return following, asked.retry.reason

    def _decide(self, error: Exception) -> tuple[Asked | None, str]:
        """Who asks for another attempt, and in words why there is one or none."""
        inner = self._inner
        if self.signal.is_set():
            return None, "The run was cancelled."
        if inner < self.inner_cap and getattr(error, "is_retryable", False) is True:
            wanted = getattr(error, "retry_after_ms", None)
            delay = min(wanted, 30_000.0) if wanted is not None else 2000.0 * 2**inner
            reason = f"The model's own retries: {inner + 1} of {self.inner_cap}."
            return Asked(_INNER, Retry(delay_ms=delay, reason=reason, matched="retryable", wanted_ms=wanted)), reason
        if not any(True for _ in self.chain.error_walk()):
            return None, "No processor of this agent can ask for a retry."
        if self._granted >= self.cap:
            return None, f"The budget of {self.cap} processor retries is used up."
        asked = self.chain.process_api_error(
            error,
            self.messages,
            model=self.model.ref,
            protocol=self.model.protocol,
            tool_names=self.model.tool_names,
            call_settings=self.model.call_settings,
            step_number=self.step,
            steps=self.steps,
            message_id=self.message_id,
            abort_signal=self.signal,
        )
        if asked is None:
            return None, "No processor asked for a retry."
        return asked, asked.retry.reason

    def _repair(self, retry: Retry) -> None:
        """Write a lasting repair of remembered rows back, so that the next turn starts repaired."""
        storage = self.chain.storage()
        if retry.repair is None or storage is None:
            return
        loaded = {entry.held["id"] for entry in self.messages.entries if entry.was_loaded}
        rows = [message for message in retry.repair.messages if message["id"] in loaded]
        if rows:
            storage.repair_messages(rows, rule=retry.repair.rule, reason=retry.repair.reason)

    def _record(
        self,
        call: Call,
        decision: str,
        *,
        reply: Any = None,
        error: Exception | None = None,
        asked: Asked | None = None,
        reason: str = "",
    ) -> None:
        is_retry = asked is not None and decision == "retry"
        self.recorder.attempt(
            AttemptRecord(
                number=call.number,
                request=call.request,
                prompt=call.result,
                messages=call.messages,
                reply=reply,
                error=error,
                decision=decision,
                reason=reason,
                asked_by=asked.processor_id if asked else "",
                matched=asked.retry.matched if asked else "",
                delay_wanted_ms=asked.retry.wanted_ms if asked else None,
                delay_granted_ms=asked.retry.delay_ms if asked and is_retry else None,
                started_at=call.started_at,
                finished_at=self.clock(),
            )
        )

    def _taken(self, reply: Any, model: Model) -> None:
        self._take(reply, model)
        self.steps.append(reply)
        self.step += 1
        self.message_id = _new_id()
        self._granted = self._inner = 0
        self.chain.step_succeeded()

    def _take_partial(self, error: Exception) -> None:
        """Put what had come of a broken answer into the list, marked incomplete."""
        partial = getattr(error, "partial", None) or getattr(error.__cause__, "partial", None)
        message = response_message(partial, self.model, self.clock()) if partial is not None else None
        if message is not None:
            message["id"] = self.message_id
            message["content"]["metadata"]["incomplete"] = True
            self.recorder.replied(message, partial)
            self.messages.add([message], "response")

    def _take(self, reply: Any, model: Model) -> None:
        """Put the answer into the list as this run's response, stamped with who wrote it."""
        usage = getattr(reply, "usage", None)
        for key in getattr(usage, "__struct_fields__", ()):
            self.usage[key] = self.usage.get(key, 0) + getattr(usage, key)
        message = response_message(reply, model, self.clock())
        if message is not None:
            message["id"] = self.message_id
            self.recorder.replied(message, reply)
            self.messages.add([message], "response")


_INNER = "model_max_retries"


def response_message(reply: Any, model: Any, at: datetime) -> StoredMessage | None:
    """The stored message of a reply: stamped turn and reasoning; None for a reply without parts.

    Of `model` its `ref` and `protocol` are looked at.
    """
    made = from_prompt(Prompt((Message("assistant", tuple(reply.parts)),))) if reply.parts else []
    if not made:
        return None
    content = made[0]["content"]
    provider = getattr(model.ref, "provider", "") or str(model.ref or "")
    stamp = {"provider": provider, "protocol": model.protocol, "modelId": getattr(model.ref, "model_id", "")}
    content["metadata"] = {key: value for key, value in stamp.items() if value}
    for part in content["parts"]:
        if part.get("type") == "reasoning":
            metadata = dict(part.get("providerMetadata") or {})
            metadata["mastra"] = {**metadata.get("mastra", {}), **content["metadata"]}
            part["providerMetadata"] = metadata
    return {"role": "assistant", "createdAt": timestamp(at), "content": content}


def _digest(request: Any) -> str:
    return hashlib.sha256(request.body).hexdigest()


def _new_id() -> str:
    return f"msg_{uuid.uuid4().hex}"
