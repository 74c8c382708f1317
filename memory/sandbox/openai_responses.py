"""What OpenAI's Responses API refuses, in its own words, and what Azure and other hosts of it refuse besides.

Raises `Refused` where the vendor answers with an error. Nothing is kept here: an id, a response or a conversation that
looks like one of OpenAI's is taken for a known one. Source: OpenAI's API reference (responses), errors reported by
client projects, and recorded exchanges; last seen September 2026.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from memory.sandbox import openai_chat
from memory.sandbox.wire import BadJson, Refused, kind_of, string_of, words

REASONED = "r"
"""First letter after the prefix in ids of an answer that held reasoning: its items must come back together."""

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_NAME_CHARS = 64
_CALL_ID_CHARS = 64
_REASONING_MODEL = re.compile(r"o\d|gpt-5(?:-mini|-nano|$)")
_RESPONSE_ID = re.compile(r"resp_[0-9a-f]{24,}")
_FILE_DATA = re.compile(r"data:([^;,]*)[^,]*;base64,")
_FILE_TYPES = re.compile(r"application/.+|text/.+|image/.+")
_REFUSED_FILES = (".mp3", ".wav", ".ogg", ".flac", ".m4a", ".mp4", ".webm", ".mov")

_REQUEST_KEYS = words(
    "background context_management conversation include input instructions max_output_tokens max_tool_calls metadata "
    "model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options "
    "prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text "
    "tool_choice tools top_logprobs top_p truncation user"
)
_ROLES = ("assistant", "system", "developer", "user")
_STATUS = words("type id status")
_ITEM_KEYS = {
    "message": words("type id status role content phase"),
    "reasoning": words("type id status summary content encrypted_content"),
    "function_call": words("type id status call_id name arguments namespace"),
    "function_call_output": words("type id status call_id output"),
    "custom_tool_call": words("type id status call_id name input namespace"),
    "custom_tool_call_output": words("type id status call_id output"),
    "item_reference": words("type id"),
    "web_search_call": _STATUS | {"action"},
    "file_search_call": _STATUS | {"queries", "results"},
    "code_interpreter_call": _STATUS | {"code", "container_id", "outputs"},
    "image_generation_call": _STATUS
    | words("result action background output_format quality revised_prompt size prompt"),
    "computer_call": _STATUS | {"call_id", "action", "actions", "pending_safety_checks"},
    "computer_call_output": _STATUS | {"call_id", "output", "acknowledged_safety_checks"},
    "local_shell_call": _STATUS | {"call_id", "action"},
    "local_shell_call_output": _STATUS | {"call_id", "output"},
    "shell_call": _STATUS | {"call_id", "action", "environment"},
    "shell_call_output": _STATUS | {"call_id", "output", "max_output_length"},
    "apply_patch_call": _STATUS | {"call_id", "operation"},
    "apply_patch_call_output": _STATUS | {"call_id", "output"},
    "tool_search_call": _STATUS | {"call_id", "arguments", "execution"},
    "tool_search_output": _STATUS | {"call_id", "tools", "execution"},
    "additional_tools": _STATUS | {"role", "tools"},
    "compaction": _STATUS | {"encrypted_content"},
    "mcp_list_tools": _STATUS | {"server_label", "tools", "error"},
    "mcp_approval_request": _STATUS | {"server_label", "name", "arguments"},
    "mcp_approval_response": _STATUS | {"approval_request_id", "approve", "reason"},
    "mcp_call": _STATUS | words("server_label name arguments output error approval_request_id"),
}
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_KNOWN_PREFIXES = words("msg rs fc ws fs ci ig cu ct lsh sh sho tsc tso cmp mcp mcpl mcpr ap")
_SAID_OF_ITEMS = {
    "status": ("in_progress", "completed", "incomplete"),
    "phase": ("commentary", "final_answer"),
}
"""What those items may say that the history is made of; the others come from OpenAI's own tools."""
_ORDINARY = words("message reasoning function_call function_call_output custom_tool_call custom_tool_call_output")
_DETAILS = {"input_image": ("low", "high", "auto", "original"), "input_file": ("low", "high", "auto")}
_INPUT_PARTS = {
    "input_text": words("type text prompt_cache_breakpoint"),
    "input_image": words("type detail file_id image_url prompt_cache_breakpoint"),
    "input_file": words("type file_id file_data file_url filename detail prompt_cache_breakpoint"),
    "input_audio": words("type input_audio"),
}
_OUTPUT_PARTS = {
    "output_text": words("type text annotations logprobs"),
    "refusal": words("type refusal"),
}


def authorise_azure(headers: Mapping[str, str]) -> None:
    """Any key is right, in `api-key` or as a bearer token; raises Refused with 401 without one."""
    if not headers.get("api-key", "").strip() and not openai_chat.bearer(headers):
        raise Refused(
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for"
            " an active subscription and use a correct regional API endpoint for your resource.",
            status=401,
            kind="",
            code="401",
        )


def azure_error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    """As OpenAI's; what the content filter stops says so in an inner error."""
    error = openai_chat.error_body(refused, request_id)["error"]
    if refused.code == "content_filter":
        error = {**error, "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    return {"error": error}


def bad_json(error: BadJson) -> Refused:
    return openai_chat.bad_json(error)


def check(body: Any) -> None:
    """Nothing when OpenAI would answer this request body; raises Refused where it would not."""
    _check(body, has_own_ids=True)


def check_azure(body: Any) -> None:
    """As OpenAI's, behind a filter that takes instruction-like tags of a user for an attack."""
    _check(body, has_own_ids=True)
    for _, item in _items(body):
        if item.get("role") == "user":
            check_filter(_text(item.get("content")))


def check_azure_chat(body: Any) -> None:
    """Azure's Chat Completions: OpenAI's behind the same filter."""
    openai_chat.check(body)
    for message in body["messages"]:
        if message["role"] == "user":
            check_filter(_text(message["content"]))


def check_host(body: Any) -> None:
    """As another host of the protocol: ids and sealed reasoning have its own forms."""
    _check(body, has_own_ids=False)


def check_filter(text: str) -> None:
    if "<system-reminder>" in text:
        raise Refused(
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please"
            " modify your prompt and retry. To learn more about our content filtering policies please read our"
            " documentation: https://go.microsoft.com/fwlink/?linkid=2198766",
            kind="",
            param="prompt",
            code="content_filter",
        )


def items_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a body that was checked; a text is one message of the user."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given or []


def type_of(item: Mapping[str, Any]) -> str:
    return string_of(item, "type") or "message"


def _check(body: Any, *, has_own_ids: bool) -> None:
    if not isinstance(body, dict):
        raise Refused("We could not parse the JSON body of your request. It is expected to be an object.")
    for key in body:
        if key not in _REQUEST_KEYS:
            raise openai_chat.unknown(key)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    if body.get("temperature") is not None and _REASONING_MODEL.match(body["model"]):
        raise Refused("Unsupported parameter: 'temperature' is not supported with this model.", param="temperature")
    has_state = bool(body.get("conversation") or body.get("prompt"))
    if (previous := body.get("previous_response_id")) is not None:
        if not isinstance(previous, str) or not _RESPONSE_ID.fullmatch(previous):
            raise Refused(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        has_state = True
    if body.get("input") is None and not has_state:
        raise Refused("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    if not isinstance(body.get("input"), str | list | None):
        raise _wrong_type("input", "one of a text or a list", body["input"])
    _check_tools(body.get("tools"))
    for place, item in _items(body):
        _check_item(item, place, has_own_ids=has_own_ids)
    _check_ids(body, has_own_ids=has_own_ids)
    if not has_state:
        _check_pairs(body)


def _items(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for at, item in enumerate(items_of(body)):
        if not isinstance(item, dict):
            raise _wrong_type(f"input[{at}]", "an object", item)
        yield f"input[{at}]", item


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise _wrong_type("tools", "an array", tools)
    for at, tool in enumerate(tools):
        place = f"tools[{at}]"
        if not isinstance(tool, dict):
            raise _wrong_type(place, "an object", tool)
        if not isinstance(tool.get("type"), str):
            raise _missing(f"{place}.type")
        if tool["type"] == "function":
            if "name" not in tool:
                raise _missing(f"{place}.name")
            _check_name(tool["name"], f"{place}.name")
            for key in tool.keys() - words("type name description parameters strict defer_loading output_schema"):
                raise openai_chat.unknown(f"{place}.{key}")


def _check_item(item: dict[str, Any], place: str, *, has_own_ids: bool) -> None:
    kind = type_of(item)
    if kind not in _ITEM_KEYS:
        raise _wrong_value(kind, tuple(_ITEM_KEYS), place)
    for key in item:
        if key not in _ITEM_KEYS[kind]:
            raise openai_chat.unknown(f"{place}.{key}")
    for key, known in _SAID_OF_ITEMS.items() if kind in _ORDINARY else ():
        if item.get(key) is not None and item[key] not in known:
            raise _wrong_value(item[key], known, f"{place}.{key}")
    if kind == "message":
        _check_message(item, place)
    elif kind in ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"):
        _check_call_id(item.get("call_id"), f"{place}.call_id")
    if kind in ("function_call", "custom_tool_call"):
        _check_name(item.get("name"), f"{place}.name")
        key = "arguments" if kind == "function_call" else "input"
        if not isinstance(item.get(key), str):
            raise _wrong_type(f"{place}.{key}", "a string", item.get(key))
    if kind == "function_call_output":
        _check_output(item.get("output"), f"{place}.output")
    if kind == "reasoning":
        if not isinstance(item.get("summary"), list):
            raise _missing(f"{place}.summary")
        if has_own_ids and not item.get("id") and not item.get("encrypted_content"):
            raise _missing(f"{place}.id")
        sealed = item.get("encrypted_content")
        if has_own_ids and isinstance(sealed, str) and not sealed.startswith("gAAAA"):
            shown = f"{sealed[:4]}...{sealed[-4:]}"
            raise Refused(
                f"The encrypted content {shown} could not be verified. Reason: Encrypted content could not be"
                " decrypted or parsed.",
                code="invalid_encrypted_content",
            )


def _check_message(item: dict[str, Any], place: str) -> None:
    role = item.get("role")
    if role not in _ROLES:
        raise _wrong_value(role, _ROLES, f"{place}.role" if "type" in item else place)
    content = item.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise _wrong_type(f"{place}.content", "one of an array of objects or string", content)
    for at, part in enumerate(content):
        _check_part(part, f"{place}.content[{at}]", _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS)


def _check_output(output: Any, place: str) -> None:
    if isinstance(output, str):
        return
    if not isinstance(output, list):
        raise _wrong_type(place, "one of an array of objects or string", output)
    for at, part in enumerate(output):
        _check_part(part, f"{place}[{at}]", _INPUT_PARTS)


def _check_part(part: Any, place: str, known: dict[str, frozenset[str]]) -> None:
    if not isinstance(part, dict):
        raise _wrong_type(place, "an object", part)
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in known:
        raise _wrong_value(kind, tuple(known), place)
    for key in part:
        if key not in known[kind]:
            raise openai_chat.unknown(f"{place}.{key}")
    for key in ("text", "refusal"):
        if key in known[kind] and not isinstance(part.get(key), str):
            raise _wrong_type(f"{place}.{key}", "a string", part.get(key))
    if kind in _DETAILS and part.get("detail") is not None and part["detail"] not in _DETAILS[kind]:
        raise _wrong_value(part["detail"], _DETAILS[kind], f"{place}.detail")
    if kind == "input_image" and not (part.get("image_url") or part.get("file_id")):
        raise _missing(f"{place}.image_url")
    if kind == "input_file":
        _check_file(part, place)


def _check_file(part: dict[str, Any], place: str) -> None:
    if isinstance(url := part.get("file_url"), str):
        if urlsplit(url).path.lower().endswith(_REFUSED_FILES):
            raise Refused(
                "The file type you uploaded is not supported. Please try again with a pdf",
                param="input",
                code="unsupported_file",
            )
    elif (data := part.get("file_data")) is not None:
        found = _FILE_DATA.match(data) if isinstance(data, str) else None
        if found is None or not _FILE_TYPES.fullmatch(found[1]):
            got = f"unsupported MIME type '{found[1]}'" if found else "an invalid value"
            raise Refused(
                f"Invalid file data: '{place}.file_data'. Expected a base64-encoded data URL with a valid file MIME"
                f" type (e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got {got}. Please see"
                " https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file"
                " types.",
                param=f"{place}.file_data",
                code="invalid_value",
            )


# Ids, and items that belong together


def _check_ids(body: dict[str, Any], *, has_own_ids: bool) -> None:
    items = list(_items(body))
    seen: set[str] = set()
    for place, item in items:
        item_id = item.get("id")
        if item_id is None:
            continue
        if has_own_ids:
            _check_item_id(item_id, type_of(item), f"{place}.id")
        if item_id in seen:
            raise Refused(
                f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try again.",
                param="input",
            )
        seen.add(item_id)
    if has_own_ids:
        _check_stored(body)
        _check_reasoning([item for _, item in items], seen)


def _check_item_id(item_id: Any, kind: str, place: str) -> None:
    if kind == "item_reference":
        if string_of({"id": item_id}, "id").partition("_")[0] not in _KNOWN_PREFIXES:
            raise Refused(f"Item with id '{item_id}' not found.", status=404, param="input")
        return
    if not isinstance(item_id, str) or not _NAME.fullmatch(item_id):
        raise Refused(
            f"Invalid '{place}': '{item_id}'. Expected an ID that contains letters, numbers, underscores, or dashes,"
            " but this value contained additional characters.",
            param=place,
            code="invalid_value",
        )
    prefix = _PREFIXES.get(kind)
    if prefix and not item_id.startswith(f"{prefix}_"):
        raise Refused(
            f"Invalid '{place}': '{item_id}'. Expected an ID that begins with '{prefix}'.",
            param=place,
            code="invalid_value",
        )


def _check_stored(body: dict[str, Any]) -> None:
    """Nothing is kept without `store`, so that an id alone leads nowhere."""
    if body.get("store") is not False:
        return
    for _, item in _items(body):
        is_lost = type_of(item) == "reasoning" and not item.get("encrypted_content") and item.get("id")
        if is_lost or type_of(item) == "item_reference":
            raise Refused(
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Try"
                " again with `store` set to true, or remove this item from your input.",
                status=404,
                param="input",
            )


def _check_reasoning(items: list[dict[str, Any]], ids: set[str]) -> None:
    """Reasoning stands right before an item of its answer, and such an item not without its reasoning."""
    for at, item in enumerate(items):
        kind, item_id = type_of(item), string_of(item, "id")
        if kind == "reasoning":
            following = items[at + 1] if at + 1 < len(items) else {}
            is_alone = following.get("role") not in (None, "assistant") or type_of(following).endswith("_output")
            if item_id and (is_alone or not following.get("id")):
                raise Refused(
                    f"Item '{item_id}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
        elif kind in _PREFIXES and item_id.startswith(f"{_PREFIXES[kind]}_{REASONED}"):
            needed = "rs_" + item_id.partition("_")[2].partition("-")[0]
            if needed not in ids:
                raise Refused(
                    f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item:"
                    f" '{needed}'.",
                    param="input",
                )


def _check_pairs(body: dict[str, Any]) -> None:
    """Each call has its output somewhere behind it."""
    waiting: dict[str, str] = {}
    for _, item in _items(body):
        kind, call_id = type_of(item), string_of(item, "call_id")
        if kind in ("function_call", "custom_tool_call"):
            waiting[call_id] = "function call" if kind == "function_call" else "custom tool call"
        elif kind in ("function_call_output", "custom_tool_call_output") and waiting.pop(call_id, None) is None:
            said = kind.replace("_", " ")
            raise Refused(f"No tool call found for {said} with call_id {call_id}.", param="input")
    for call_id, said in waiting.items():
        raise Refused(f"No tool output found for {said} {call_id}.", param="input")


def _check_call_id(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise _missing(place) if value is None else _wrong_type(place, "a string", value)
    _check_length(value, _CALL_ID_CHARS, place)


def _check_name(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise _wrong_type(place, "a string", value)
    _check_length(value, _NAME_CHARS, place)
    if not _NAME.fullmatch(value):
        raise Refused(
            f"Invalid '{place}': string does not match pattern. Expected a string that matches the pattern"
            " '^[a-zA-Z0-9_-]+$'.",
            param=place,
            code="invalid_value",
        )


def _check_length(value: str, limit: int, place: str) -> None:
    if not value:
        raise Refused(
            f"Invalid '{place}': empty string. Expected a string with minimum length 1, but got an empty string"
            " instead.",
            param=place,
            code="empty_string",
        )
    if len(value) > limit:
        raise Refused(
            f"Invalid '{place}': string too long. Expected a string with maximum length {limit}, but got a string with"
            f" length {len(value)} instead.",
            param=place,
            code="string_above_max_length",
        )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(string_of(part, "text") for part in content)
    return content if isinstance(content, str) else ""


def _missing(place: str) -> Refused:
    return Refused(f"Missing required parameter: '{place}'.", param=place, code="missing_required_parameter")


def _wrong_type(place: str, expected: str, value: Any) -> Refused:
    return Refused(
        f"Invalid type for '{place}': expected {expected}, but got {kind_of(value)} instead.",
        param=place,
        code="invalid_type",
    )


def _wrong_value(value: Any, known: tuple[str, ...], place: str) -> Refused:
    names = [f"'{name}'" for name in known]
    listed = f"{names[0]} and {names[1]}" if len(names) == 2 else ", ".join(names[:-1]) + ", and " + names[-1]
    return Refused(f"Invalid value: '{value}'. Supported values are: {listed}.", param=place, code="invalid_value")
