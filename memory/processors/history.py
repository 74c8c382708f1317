"""Recall the last messages of a thread before a run, save the new ones after it.

Source: the processor specification's section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from memory.errors import InvalidInput, InvalidOption, NotFound
from memory.messages.lists import MessageList
from memory.messages.stored import StoredMessage, timestamp
from memory.processors.base import ProcessInputArgs, ProcessOutputResultArgs
from memory.processors.storage import HistoryStorage

CONTEXT_KEY = "MastraMemory"
_TAG, _END_TAG = "<working_memory>", "</working_memory>"


class MessageHistory:
    """Goes into the input processors (recalls) and the output processors (saves); two objects are fine.

    `storage` is a HistoryStorage. `last_messages`: how many to recall, 0 for none; absent or False for all.
    `steady_prefix`: a full window is cut down to three quarters at once, at the beginning of a turn, instead of by one
    message each time, so that the first recalled message, and with it the prompt cache, changes that rarely.
    Raises InvalidOption naming the option.
    """

    id = "message-history"
    name = "MessageHistory"

    def __init__(
        self,
        *,
        storage: HistoryStorage | None = None,
        last_messages: int | bool | None = None,
        steady_prefix: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if storage is None:
            raise InvalidOption("storage: a history needs a place to keep messages", field="storage")
        is_number = isinstance(last_messages, int) and not isinstance(last_messages, bool) and last_messages >= 0
        if last_messages is not None and last_messages is not False and not is_number:
            message = f"last_messages: expected a whole number from 0, or false for all, got {last_messages!r}"
            raise InvalidOption(message, field="last_messages")
        if not isinstance(steady_prefix, bool):
            message = f"steady_prefix: expected true or false, got {steady_prefix!r}"
            raise InvalidOption(message, field="steady_prefix")
        self.storage = storage
        self.steady_prefix = steady_prefix
        self.last_messages: int | None = last_messages if is_number else None
        self._clock = clock

    def process_input(self, args: ProcessInputArgs) -> MessageList:
        """The list, with remembered messages before what came in. Storage errors reach the caller."""
        messages = args.message_list
        place = _place(args.request_context, messages)
        if place is None:
            return messages
        thread_id, resource_id, _ = place
        loaded = self._recalled(thread_id, resource_id)
        messages.add([message for message in loaded if message.get("role") != "system"], "memory")
        return messages

    def _recalled(self, thread_id: str, resource_id: str | None) -> list[StoredMessage]:
        """The newest messages of the window, oldest first."""
        window = self.last_messages
        loaded = self.storage.load_messages(thread_id, resource_id, last=window)
        if not self.steady_prefix or not window or len(loaded) < window:
            return loaded
        thread = self.storage.load_thread(thread_id) or {}
        count = thread.get("messageCount")
        if not isinstance(count, int):
            count = len(self.storage.load_messages(thread_id, resource_id, last=None))
        quarter = max(1, window // 4)
        too_many = max(0, count - window)
        left_out = -(-too_many // quarter) * quarter  # whole quarters
        if not left_out:
            return loaded
        recalled = loaded[left_out - too_many :]
        begin = next((at for at, message in enumerate(recalled) if message.get("role") != "assistant"), 0)
        return recalled[begin:] if begin < quarter else recalled

    def process_output_result(self, args: ProcessOutputResultArgs) -> MessageList:
        """The list, unchanged; input and response messages are saved. A failed turn without output saves nothing."""
        messages = args.message_list
        place = _place(args.request_context, messages)
        if place is None or place[2].get("readOnly"):
            return messages
        thread_id, resource_id, _ = place
        failed = args.result is not None and args.result.finish_reason == "error"
        if failed and not messages.has_output:
            return messages
        to_save = [kept for message in messages.unsaved() if (kept := storable(message)) is not None]
        if not to_save:
            return messages
        owner = resource_id or thread_id
        thread = self.storage.load_thread(thread_id)
        if thread is None:
            now = timestamp(self._clock())
            row = {
                "id": thread_id,
                "resourceId": owner,
                "title": "",
                "metadata": {},
                "createdAt": now,
                "updatedAt": now,
            }
            self.storage.create_thread(row)
        elif resource_id is not None and thread["resourceId"] != resource_id:
            raise NotFound(f"no thread {thread_id}")
        else:
            owner = thread["resourceId"]
        self.storage.save_messages(thread_id, owner, [_owned(message, thread_id, owner) for message in to_save])
        return messages


def _place(context: Mapping[str, Any], messages: MessageList) -> tuple[str, str | None, Mapping[str, Any]] | None:
    """Thread, resource and memory config of a run; None when no thread is known."""
    memory = context.get(CONTEXT_KEY)
    if memory is None:
        memory = {}
    if not isinstance(memory, Mapping):
        raise InvalidInput(f"Invalid MemoryRequestContext: expected object, got {_js_type(memory)}")
    thread, resource_id = memory.get("thread"), memory.get("resourceId")
    config = memory.get("memoryConfig")
    if thread is not None and not isinstance(thread, Mapping):
        raise InvalidInput(f"Invalid MemoryRequestContext.thread: expected object, got {_js_type(thread)}")
    thread_id = thread.get("id") if thread else None
    if thread is not None and not isinstance(thread_id, str):
        raise InvalidInput(f"Invalid MemoryRequestContext.thread.id: expected string, got {_js_type(thread_id)}")
    if resource_id is not None and not isinstance(resource_id, str):
        raise InvalidInput(f"Invalid MemoryRequestContext.resourceId: expected string, got {_js_type(resource_id)}")
    if config is not None and not isinstance(config, Mapping):
        raise InvalidInput(f"Invalid MemoryRequestContext.memoryConfig: expected object, got {_js_type(config)}")
    if thread_id:
        return thread_id, resource_id, config or {}
    if messages.thread_id:
        return messages.thread_id, messages.resource_id, config or {}
    return None


def _js_type(value: Any) -> str:
    names = {type(None): "undefined", bool: "boolean", int: "number", float: "number", str: "string"}
    return names.get(type(value), "object")


def _owned(message: StoredMessage, thread_id: str, resource_id: str) -> StoredMessage:
    out = dict(message)
    if not out.get("threadId"):
        out["threadId"] = thread_id
    if not out.get("resourceId"):
        out["resourceId"] = resource_id
    return out


# What is saved of a message


def storable(message: StoredMessage) -> StoredMessage | None:
    """The message as it is saved: without unfinished calls and working-memory text; None when nothing is left."""
    if message.get("role") == "system" or _is_transient(message):
        return None
    content = dict(message["content"])
    text = content.get("content")
    if isinstance(text, str):
        content["content"] = text = _without_tags(text)
    parts = content.get("parts")
    if isinstance(parts, list):
        kept = [new for part in parts if (new := _storable_part(part)) is not None]
        if not kept and not (isinstance(text, str) and text.strip()):
            return None
        content["parts"] = kept
    legacy = content.get("toolInvocations")
    if isinstance(legacy, list):
        content["toolInvocations"] = [entry for entry in legacy if not _is_unfit(entry)]
        if legacy and not content["toolInvocations"]:
            del content["toolInvocations"]
            if not content.get("parts") and not (isinstance(text, str) and text.strip()):
                return None
    return {**message, "content": content}


def _is_transient(message: StoredMessage) -> bool:
    if message.get("role") != "signal":
        return False
    metadata = message["content"].get("metadata")
    signal = metadata.get("signal") if isinstance(metadata, Mapping) else None
    return isinstance(signal, Mapping) and bool(signal.get("transient"))


def _storable_part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "tool-invocation" and _is_unfit(part.get("toolInvocation")):
        return None
    if part.get("type") == "text":
        text = part.get("text")
        if not isinstance(text, str):
            return {**part, "text": ""}
        cleaned = _without_tags(text)
        return part if cleaned == text else {**part, "text": cleaned}
    return part


def _is_unfit(invocation: Any) -> bool:
    """Whether an invocation is never stored: still streaming, or a note of the working memory."""
    return isinstance(invocation, Mapping) and (
        invocation.get("state") == "partial-call" or invocation.get("toolName") == "updateWorkingMemory"
    )


def _without_tags(text: str) -> str:
    """The text without its working-memory blocks, trimmed if one was cut; an unclosed tag stays."""
    out, position, was_cut = [], 0, False
    while (start := text.find(_TAG, position)) >= 0:
        end = text.find(_END_TAG, start)
        if end < 0:
            break
        out.append(text[position:start])
        position, was_cut = end + len(_END_TAG), True
    if not was_cut:
        return text
    return ("".join(out) + text[position:]).strip()
