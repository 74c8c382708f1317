"""Histories from elsewhere: recorded exchanges and bare request bodies become threads.

A line that continues another adds to its thread what its request and its answer have beyond it; any other line starts
one. Ids come from the line's id (a bare body's from its hash), so that importing again changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO

import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import Struct
from msgspec.structs import replace

from memory import store
from memory.access import Principal
from memory.errors import CompatAdminError, Conflict, Forbidden, InvalidInput, ProviderError
from memory.messages.from_prompt import from_prompt
from memory.messages.names import provider_id
from memory.messages.prompt import Message, Prompt
from memory.messages.stored import (
    StoredMessage,
    clean_content,
    decode_json,
    instant,
    parts_of,
    text_of,
    timestamp,
    write_json,
)
from memory.models import Thread
from memory.providers import wire_module
from memory.providers.wire import WireModule
from memory.services.preview import Preview, preview

log = logging.getLogger(__name__)

TITLE_LENGTH = 80
_START = datetime(2026, 1, 1, tzinfo=UTC)
"""When a history without any times is said to have begun."""
_SECOND = timedelta(seconds=1)
_ID_LENGTH = 300
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
_OPENAI_ROLES = {"system", "developer", "tool"}


class ImportReport(Struct):
    """What an import did. `unchanged` counts lines that were there; `skipped` names what was left out, and why."""

    threads_made: int = 0
    threads_extended: int = 0
    messages_added: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = []


class Line(Struct, frozen=True, kw_only=True):
    """One exchange. `key` is its id as the ids of threads and messages can hold it."""

    id: str
    key: str
    provider: str
    protocol: str
    model: str
    request: Mapping[str, Any]
    response: Any = None
    status: int = 200
    is_streamed: bool = False
    continues: str = ""
    headers: Mapping[str, str] = {}

    @property
    def stamp(self) -> dict[str, str]:
        """Who wrote the answer, as a turn's metadata says it."""
        values = {"provider": self.provider, "protocol": self.protocol, "modelId": self.model}
        return {name: value for name, value in values.items() if value}


class Conversation(Struct, frozen=True, kw_only=True):
    """A thread in the making: its messages, and those of them that no row holds yet, or holds otherwise.

    `imported` is what its thread keeps: system texts and tools of the newest line, who answered that, and for each
    line how many messages there were after it.
    """

    thread_id: str
    messages: Sequence[StoredMessage]
    unsaved: Sequence[StoredMessage]
    imported: Mapping[str, Any]
    last_error: str = ""
    remark: str = ""
    """What of the newest line was left out, and why."""

    @property
    def title(self) -> str:
        texts = (text_of(message["content"]) for message in self.messages if message["role"] == "user")
        return " ".join(next((text for text in texts if text.strip()), "").split())[:TITLE_LENGTH]


def import_lines(
    lines: Iterable[bytes | str],
    *,
    caller: Principal,
    resource_id: str,
    source: str,
    clock: Callable[[], datetime] = timezone.now,
) -> ImportReport:
    """Store the histories of these lines as threads of the resource; what was done, and what was left out and why.

    A line that can't be imported never stops the others: each is a transaction of its own. `source` names where they
    come from, `clock` says when they came. Raises Forbidden for another resource than the caller's, InvalidInput for
    one that no row can hold.
    """
    if problem := store.id_problem(resource_id):
        raise InvalidInput(problem, field="resource_id")
    if not caller.may_act_for(resource_id):
        raise Forbidden("this key acts for another resource")
    author = store.clean_label(f"import:{source}", 200)
    shelf = _Shelf(resource_id, store.DjangoStorage(written_by=author, clock=clock))
    report = ImportReport()

    def take(line: Line) -> None:
        with transaction.atomic():
            before = shelf.before(line)
            if shelf.holds(line, before):
                report.unchanged += 1
                return
            conversation = joined(before, line)
            shelf.put(conversation)
        _count(report, before, conversation, line)

    _take_each(lines, take, report)
    return report


def _take_each(lines: Iterable[bytes | str], take: Callable[[Line], None], report: ImportReport) -> None:
    """Hand over every line that can be read. One that can't be, or isn't taken, is named in the report."""
    for number, raw in enumerate(lines, 1):
        text = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
        if not text.strip():
            continue
        name = f"line {number}"
        try:
            value = decode_json(text)
            name = _name(value) or name
            take(read_line(value))
        except CompatAdminError as error:
            report.skipped.append((name, str(error)))
        except Exception as error:  # one line that breaks must not end the import
            log.exception("%s could not be imported", name)
            report.skipped.append((name, f"{type(error).__name__}: {error}"))


def _count(report: ImportReport, before: Conversation | None, conversation: Conversation, line: Line) -> None:
    known_count = 0
    if before is not None and before.thread_id == conversation.thread_id:
        report.threads_extended += 1
        known_count = len(before.messages)
    else:
        report.threads_made += 1
    report.messages_added += len(conversation.messages) - known_count
    if conversation.remark:
        report.skipped.append((line.id, conversation.remark))


class _Shelf:
    """The rows of imported threads of one resource."""

    def __init__(self, resource_id: str, storage: store.DjangoStorage) -> None:
        self._resource_id, self._storage = resource_id, storage
        self._thread_ids: dict[str, str] = {}

    def before(self, line: Line) -> Conversation | None:
        """The thread of the line that this one continues, as far as it was imported."""
        if not line.continues:
            return None
        own = Thread.objects.filter(resource_id=self._resource_id)
        known = self._thread_ids.get(line.continues)
        found = own.filter(id=known) if known else own.filter(imported__lines__has_key=line.continues)
        row = found.order_by("created_at", "id").values_list("id", "imported").first()
        if row is None:
            return None
        thread_id, imported = row
        messages = self._storage.load_messages(thread_id, self._resource_id, last=None)
        return Conversation(thread_id=thread_id, messages=messages, unsaved=(), imported=imported)

    def holds(self, line: Line, before: Conversation | None) -> bool:
        """Whether the line was imported. Raises Conflict when the id of its thread is taken by something else."""
        if before is not None and line.id in before.imported["lines"]:
            self._thread_ids[line.id] = before.thread_id
            return True
        thread_id = thread_id_of(line)
        row = Thread.objects.filter(id=thread_id).values_list("resource_id", "imported").first()
        if row is None:
            return False
        resource_id, imported = row
        if resource_id != self._resource_id or line.id not in imported.get("lines", ()):
            raise Conflict(f"the thread id {thread_id} is taken", code="id_taken")
        self._thread_ids[line.id] = thread_id
        return True

    def put(self, conversation: Conversation) -> None:
        """Store what is unsaved. Raises Conflict when the id of a new thread is taken."""
        imported = msgspec.json.decode(clean_content(conversation.imported)[0])
        lines = conversation.imported["lines"]
        if len(lines) == 1:
            created_at = instant(conversation.messages[0]["createdAt"])
            title = store.clean_label(conversation.title, TITLE_LENGTH)
            row = Thread(id=conversation.thread_id, resource_id=self._resource_id, title=title)
            row.created_at = row.updated_at = created_at or timezone.now()
            if not store.insert_thread(row):
                raise Conflict(f"the thread id {conversation.thread_id} is taken", code="id_taken")
        self._storage.save_messages(conversation.thread_id, self._resource_id, conversation.unsaved)
        thread = Thread.objects.filter(id=conversation.thread_id)
        thread.update(imported=imported, last_error=conversation.last_error)
        self._thread_ids |= dict.fromkeys(lines, conversation.thread_id)


# Trying without storing


class Trial(Struct, frozen=True):
    """A conversation previewed for a target `provider/model`: the preview, or why there is none."""

    thread_id: str
    target: str
    preview: Preview | None
    error: str = ""


def try_lines(
    lines: Iterable[bytes | str], *, caller: Principal, targets: Sequence[str], report: ImportReport
) -> Iterator[Trial]:
    """Every conversation of these lines previewed for every target; no row stays. `report` gets what they held."""
    by_line: dict[str, Conversation] = {}

    def take(line: Line) -> None:
        before = by_line.get(line.continues)
        conversation = joined(before, line)
        by_line.update(dict.fromkeys(conversation.imported["lines"], conversation))
        _count(report, before, conversation, line)

    _take_each(lines, take, report)
    for conversation in {found.thread_id: found for found in by_line.values()}.values():
        yield from _tried(conversation, caller, targets)


def _tried(conversation: Conversation, caller: Principal, targets: Sequence[str]) -> list[Trial]:
    # Rows for a moment, so that the trial goes the way of a thread; short, so that others may write in between.
    name = "trial:" + hashlib.sha256(conversation.thread_id.encode()).hexdigest()[:32]
    shelf = _Shelf(caller.resource_id or name, store.DjangoStorage(written_by="trial"))
    imported = {**conversation.imported, "lines": {name: len(conversation.messages)}}
    with transaction.atomic():
        shelf.put(replace(conversation, thread_id=name, unsaved=conversation.messages, imported=imported))
        out = [_previewed(caller, name, conversation.thread_id, target) for target in targets]
        transaction.set_rollback(True)
    return out


def _previewed(caller: Principal, name: str, thread_id: str, target: str) -> Trial:
    provider, _, model = target.partition("/")
    try:
        return Trial(thread_id, target, preview(caller, thread_id=name, provider=provider, model=model))
    except CompatAdminError as error:
        return Trial(thread_id, target, None, str(error))
    except Exception as error:  # a history that breaks a preview is what is looked for; the others count as well
        log.exception("the preview of %s for %s failed", thread_id, target)
        return Trial(thread_id, target, None, f"{type(error).__name__}: {error}")


# Files and lines


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The exchanges of a file, each as JSON: one a line; or one body, or a list of them, over several lines."""
    first = file.readline().removeprefix(b"\xef\xbb\xbf")
    if not first.lstrip().startswith(b"[") and (not first.strip() or _is_json(first)):
        yield first
        yield from file
        return
    whole = first + file.read()
    try:
        yield from map(bytes, msgspec.json.decode(whole, type=list[msgspec.Raw]))
    except msgspec.MsgspecError:
        yield from [whole] if _is_json(whole) else whole.splitlines()


def _is_json(text: bytes) -> bool:
    try:
        decode_json(text)
    except InvalidInput:
        return False
    return True


def _name(value: Any) -> str:
    found = value.get("id") if isinstance(value, Mapping) and "messages" not in value else None
    return store.clean_label(found, _ID_LENGTH) if isinstance(found, str) else ""


def read_line(value: Any) -> Line:
    """The exchange that a decoded line means: a recorded one, or a bare request body.

    Raises InvalidInput for one without a request, and for what is neither.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput("neither a recorded exchange nor a request body")
    if "messages" in value and "request" not in value:
        return _bare(value)
    if not any(key in value for key in ("request", "response", "protocol")):
        raise InvalidInput("neither a recorded exchange nor a request body")
    request, response = value.get("request"), value.get("response")
    if request is None:
        raise InvalidInput("it holds no request")
    if not isinstance(request, Mapping):
        raise InvalidInput("request: expected an object")
    protocol = _word(value, "protocol") or guessed_protocol(request)
    line_id = _name(value) or _digest(value)
    status = value.get("status")
    headers = value.get("headers")
    return Line(
        id=line_id,
        key=_key(line_id),
        provider=provider_id(_word(value, "provider") or _word(value, "protocol") or _vendor(protocol)),
        protocol=protocol,
        model=_word(value, "model") or _word(request, "model"),
        request=request,
        response=response,
        status=status if isinstance(status, int) else 200,
        is_streamed=response is None and any(value.get(key) for key in ("sse", "events", "eventstream_base64")),
        continues=store.clean_label(_word(value, "continues"), _ID_LENGTH),
        headers=headers if isinstance(headers, Mapping) else {},
    )


def _bare(body: Mapping[str, Any]) -> Line:
    protocol, line_id = guessed_protocol(body), _digest(body)
    return Line(
        id=line_id,
        key=line_id,
        provider=_vendor(protocol),
        protocol=protocol,
        model=_word(body, "model"),
        request=body,
    )


def guessed_protocol(body: Mapping[str, Any]) -> str:
    """The protocol a request body is written in, told from what only one of them has."""
    messages = [message for message in body.get("messages") or () if isinstance(message, Mapping)]
    kinds = set()
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        kinds |= {str(block.get("type")) for block in blocks if isinstance(block, Mapping)}
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, Mapping)]
    if "system" in body or kinds & _ANTHROPIC_BLOCKS or any("input_schema" in tool for tool in tools):
        return "anthropic-messages"
    is_openai = tools or kinds - {"text"} or any(m.get("role") in _OPENAI_ROLES or "tool_calls" in m for m in messages)
    has_sign = bool(kinds) or "claude" in _word(body, "model")
    return "anthropic-messages" if "max_tokens" in body and has_sign and not is_openai else "openai-chat"


def _vendor(protocol: str) -> str:
    """Whom a body without a provider is said to come from: the vendor of its protocol."""
    return "anthropic" if protocol == "anthropic-messages" else provider_id(protocol)


def _word(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _digest(value: Any) -> str:
    return "body-" + hashlib.sha256(clean_content(value)[0].encode()).hexdigest()[:32]


def _key(line_id: str) -> str:
    """The line's id, or a hash where no thread id can hold it."""
    if not store.thread_id_problem(f"import:{line_id}"):
        return line_id
    return "line-" + hashlib.sha256(line_id.encode("utf-8", "replace")).hexdigest()[:32]


def thread_id_of(line: Line) -> str:
    """The id of the thread that this line starts."""
    return f"import:{line.key}"


# A line and what was before it


def joined(before: Conversation | None, line: Line) -> Conversation:
    """The conversation after this line: `before` with what is new, else one of its own with the whole history.

    It is one of its own, too, when another line went on from the same place, or when the thread is not what the line
    begins with. Raises InvalidInput for a request that can't be read.
    """
    wire = wire_module(line.protocol)
    read = wire.decode_request(line.request, provider=line.provider)
    history = from_prompt(read.prompt)
    answer, last_error, remark = _answer(wire, line)
    imported = {
        "system": [message.text for message in read.prompt.messages if message.role == "system"],
        "tools": msgspec.to_builtins(read.settings.tools),
        "provider": line.provider,
        "protocol": line.protocol,
        "model": line.model,
        "line": line.id,
    }
    known, changed, stamp, lines = _known(before, line, history)
    new = [_stamped(message, stamp) for message in history[len(known) :]] + [_stamped(m, line.stamp) for m in answer]
    if not known and not new:
        raise InvalidInput("it holds no messages")
    new = _with_ids_and_times(new, line, known)
    messages = [*known, *new]
    return Conversation(
        thread_id=before.thread_id if before is not None and known else thread_id_of(line),
        messages=messages,
        unsaved=[*changed, *new],
        imported={**imported, "lines": {**lines, line.id: len(messages)}},
        last_error=last_error,
        remark=remark,
    )


def _known(
    before: Conversation | None, line: Line, history: Sequence[StoredMessage]
) -> tuple[list[StoredMessage], list[StoredMessage], dict[str, str], dict[str, int]]:
    """The messages this line goes on from, those of them its request changed, who answers in it, earlier lines.

    Open calls that the request brings results for are answered: results are kept with their calls.
    """
    if before is None or not _goes_on(before, line, history):
        return [], [], line.stamp, {}
    known, changed = [], []
    for old, sent in zip(before.messages, history, strict=False):
        answered = _with_outcomes(old, sent)
        known.append(answered)
        if answered is not old:
            changed.append(answered)
    names = {"provider": "provider", "protocol": "protocol", "modelId": "model"}
    stamp = {name: before.imported[key] for name, key in names.items() if before.imported[key]}
    return known, changed, stamp, dict(before.imported["lines"])


def _goes_on(before: Conversation, line: Line, history: Sequence[StoredMessage]) -> bool:
    newest, lines = before.imported["line"], before.imported["lines"]
    if newest != line.continues or lines.get(newest) != len(before.messages):
        return False
    if len(history) < len(before.messages):
        return False
    return all(_gist(old) == _gist(sent) for old, sent in zip(before.messages, history, strict=False))


def _gist(message: StoredMessage) -> tuple[str, str, list[str]]:
    """What tells that two forms of a turn are the same one.

    Ids and signatures may differ from host to host, and some clients send reasoning back as tagged text.
    """
    names = [part["toolInvocation"]["toolName"] for part in _calls(message)]
    return message["role"], "".join(_THOUGHT.sub("", text_of(message["content"])).split()), names


def _calls(message: StoredMessage) -> list[dict[str, Any]]:
    return [part for part in parts_of(message["content"]) if part.get("type") == "tool-invocation"]


def _with_outcomes(old: StoredMessage, sent: StoredMessage) -> StoredMessage:
    """The stored turn with the results that its calls got since; the same object when there are none."""
    outcomes = {
        id(mine): theirs
        for mine, theirs in zip(_calls(old), _calls(sent), strict=True)
        if mine["toolInvocation"]["state"] == "call" and theirs["toolInvocation"]["state"] != "call"
    }
    if not outcomes:
        return old
    parts = []
    for part in old["content"]["parts"]:
        if (answered := outcomes.get(id(part))) is not None:
            theirs = answered["toolInvocation"]
            kept = {key: theirs[key] for key in ("state", "result", "errorText") if key in theirs}
            metadata = {**(part.get("providerMetadata") or {}), **(answered.get("providerMetadata") or {})}
            part = {**part, "toolInvocation": {**part["toolInvocation"], **kept}}
            if metadata:
                part["providerMetadata"] = metadata
        parts.append(part)
    return {**old, "content": {**old["content"], "parts": parts}}


def _answer(wire: WireModule, line: Line) -> tuple[list[StoredMessage], str, str]:
    """The line's last turn, the error it ended with, and what of its answer was left out."""
    if line.is_streamed:
        return [], "", "its streamed answer is left out: streams are not read"
    if line.status >= 400:
        body = line.response if isinstance(line.response, str) else write_json(line.response)
        headers = {name: value for name, value in line.headers.items() if isinstance(value, str)}
        return [], _shown(wire.decode_error(line.status, headers, body, provider=line.provider)), ""
    if line.response is None:
        return [], "", ""
    if not isinstance(line.response, Mapping):
        return [], "", "its answer is left out: expected an object"
    try:
        reply = wire.decode_reply(line.response, provider=line.provider)
    except ProviderError as error:
        if line.response.get("error"):
            return [], _shown(error), ""
        return [], "", f"its answer is left out: {error}"
    made = from_prompt(Prompt((Message("assistant", tuple(reply.parts)),))) if reply.parts else []
    return made, "", ""


def _shown(error: ProviderError) -> str:
    return store.clean_label(" ".join(f"{error.error_class}: {error}".split()), 500)


def _stamped(message: StoredMessage, stamp: Mapping[str, str]) -> StoredMessage:
    if message["role"] != "assistant":
        return message
    return {**message, "content": {**message["content"], "metadata": dict(stamp)}}


def _with_ids_and_times(
    messages: Sequence[StoredMessage], line: Line, known: Sequence[StoredMessage]
) -> list[StoredMessage]:
    """Ids `<line>#<n>`; times a second apart, from the date of the line if that is not before what is known."""
    last = instant(known[-1]["createdAt"]) if known else None
    at = max(last + _SECOND if last else _START, _date(line.headers) or _START)
    return [
        {**message, "id": f"{line.key}#{n}", "createdAt": timestamp(at + n * _SECOND)}
        for n, message in enumerate(messages)
    ]


def _date(headers: Mapping[str, Any]) -> datetime | None:
    value = next((value for name, value in headers.items() if name.lower() == "date"), None)
    if not isinstance(value, str):
        return None
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
