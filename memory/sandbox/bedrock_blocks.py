"""Shapes of a Converse request: known keys, types, alphabets and lengths, block by block.

Raises `Refused` in Bedrock's words where they are known; what is not listed is refused as a key that is not permitted.
"""

import re
from typing import Any

from memory.sandbox.wire import Refused, words

_REQUEST_KEYS = words(
    "modelId messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields promptVariables "
    "additionalModelResponseFieldPaths requestMetadata performanceConfig serviceTier outputConfig"
)
_INFERENCE = {"maxTokens": int, "temperature": int | float, "topP": int | float, "stopSequences": list}
_TOOL_KEYS = words("toolSpec systemTool cachePoint")
_FORMATS = {
    "image": "gif jpeg png webp",
    "document": "csv doc docx html md pdf txt xls xlsx",
    "video": "flv mkv mov mp4 mpeg mpg three_gp webm wmv",
    "audio": "aac flac m4a mka mkv mp3 mp4 mpeg mpga ogg opus pcm wav webm x-aac",
}
_MEDIA_KEYS = {
    "image": words("format source"),
    "video": words("format source"),
    "audio": words("format source"),
    "document": words("format source name context citations"),
}
_SOURCES = {
    "image": words("bytes s3Location"),
    "video": words("bytes s3Location"),
    "audio": words("bytes s3Location"),
    "document": words("bytes s3Location text content"),
}
_CONTENT_KEYS = words(
    "text image document video audio toolUse toolResult guardContent cachePoint reasoningContent citationsContent "
    "searchResult"
)
_RESULT_KEYS = words("text json image document video searchResult")
_ID = re.compile(r"[a-zA-Z0-9_.:-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_DOCUMENT_NAME = re.compile(r"(?:[a-zA-Z0-9()\[\]-]|\s(?!\s))+")
_LONGEST = 64


def check_request(body: dict[str, Any]) -> None:
    """All shapes outside the conversation's own rules. Raises Refused."""
    _check_keys(body, _REQUEST_KEYS, "#")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _constraint("messages", "Member must not be null")
    _check_inference(body.get("inferenceConfig"))
    _check_tools(body.get("toolConfig"))
    for index, block in enumerate(_listed(body.get("system"), "system")):
        _check_system(block, index)
    for index, message in enumerate(messages):
        _check_message(message, index)


def union(value: Any, known: frozenset[str], place: str) -> str:
    """The one key of a union. Raises Refused for none, several or an unknown one."""
    if not isinstance(value, dict):
        raise malformed(place, "expected type: JSONObject")
    _check_keys(value, known, place)
    if len(value) != 1:
        raise malformed(place, f"exactly one of [{', '.join(sorted(known))}] must be set")
    return str(next(iter(value)))


def malformed(place: str, what: str) -> Refused:
    return Refused(
        "The model returned the following errors: Malformed input request: "
        f"{place}: {what}, please reformat your input and try again."
    )


def _check_keys(value: dict[str, Any], known: frozenset[str], place: str) -> None:
    for key in value:
        if key not in known:
            raise malformed(place, f"extraneous key [{key}] is not permitted")


def _constraint(place: str, what: str) -> Refused:
    return Refused(f"Value at '{place}' failed to satisfy constraint: {what}")


def _listed(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"#/{place}", "expected type: JSONArray")
    return value


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed(place, "expected type: JSONObject")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise malformed(place, "expected type: String")
    return value


def _check_inference(value: Any) -> None:
    if value is None:
        return
    _check_keys(_object(value, "#/inferenceConfig"), frozenset(_INFERENCE), "#/inferenceConfig")
    for key, item in value.items():
        if isinstance(item, bool) or not isinstance(item, _INFERENCE[key]):
            raise malformed(f"#/inferenceConfig/{key}", "expected another type")
    for key, low, high in (("maxTokens", 1, None), ("temperature", 0, 1), ("topP", 0, 1)):
        item = value.get(key)
        if item is not None and item < low:
            raise _constraint(f"inferenceConfig.{key}", f"Member must have value greater than or equal to {low}")
        if item is not None and high is not None and item > high:
            raise _constraint(f"inferenceConfig.{key}", f"Member must have value less than or equal to {high}")


def _check_tools(config: Any) -> None:
    if config is None:
        return
    _check_keys(_object(config, "#/toolConfig"), words("tools toolChoice"), "#/toolConfig")
    tools = config.get("tools")
    if not isinstance(tools, list):
        raise _constraint("toolConfig.tools", "Member must not be null")
    if not tools:
        raise _constraint("toolConfig.tools", "Member must have length greater than or equal to 1")
    for index, tool in enumerate(tools):
        place = f"#/toolConfig/tools/{index}"
        if union(tool, _TOOL_KEYS, place) == "toolSpec":
            spec = _object(tool["toolSpec"], f"{place}/toolSpec")
            _check_keys(spec, words("name description inputSchema strict"), f"{place}/toolSpec")
            _check_name(spec.get("name"), f"toolConfig.tools.{index + 1}.member.toolSpec.name")
            schema = _object(spec.get("inputSchema"), f"{place}/toolSpec/inputSchema")
            _object(schema.get("json"), f"{place}/toolSpec/inputSchema/json")
    if (choice := config.get("toolChoice")) is not None:
        kind = union(choice, words("auto any tool"), "#/toolConfig/toolChoice")
        known = words("name") if kind == "tool" else frozenset[str]()
        _check_keys(_object(choice[kind], f"#/toolConfig/toolChoice/{kind}"), known, f"#/toolConfig/toolChoice/{kind}")


def _check_name(value: Any, place: str) -> None:
    name = _text(value, place)
    if len(name) > _LONGEST:
        raise _constraint(place, f"Member must have length less than or equal to {_LONGEST}")
    if not _NAME.fullmatch(name):
        raise _constraint(place, "Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+")


def _check_id(value: Any, place: str) -> None:
    call_id = _text(value, place)
    if len(call_id) > _LONGEST:
        raise _constraint(place, f"Member must have length less than or equal to {_LONGEST}")
    if not call_id:
        raise _constraint(place, "Member must have length greater than or equal to 1")
    if not _ID.fullmatch(call_id):
        raise _constraint(place, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+")


def _check_system(block: Any, index: int) -> None:
    kind = union(block, words("text guardContent cachePoint"), f"#/system/{index}")
    if kind == "text" and not _text(block["text"], f"#/system/{index}/text").strip():
        raise Refused(
            f"The text field in the SystemContentBlock object at system.{index} is blank. Add text to the text field,"
            " and try again."
        )


def _check_message(message: Any, index: int) -> None:
    place = f"#/messages/{index}"
    _check_keys(_object(message, place), words("role content"), place)
    if message.get("role") not in ("user", "assistant"):
        raise _constraint(f"messages.{index + 1}.member.role", "Member must satisfy enum value set: [user, assistant]")
    content = _listed(message.get("content"), f"messages/{index}/content")
    if not content:
        raise Refused(
            f"The content field in the Message object at messages.{index} is empty. Add a ContentBlock object to the"
            " content field and try again."
        )
    for at, block in enumerate(content):
        kind = union(block, _CONTENT_KEYS, f"{place}/content/{at}")
        member = f"messages.{index + 1}.member.content.{at + 1}.member.{kind}"
        _check_block(kind, block[kind], f"{place}/content/{at}/{kind}", member)


def _check_block(kind: str, value: Any, place: str, member: str) -> None:
    match kind:
        case "text":
            _text(value, place)
        case "toolUse":
            _check_keys(_object(value, place), words("toolUseId name input type"), place)
            _check_id(value.get("toolUseId"), f"{member}.toolUseId")
            _check_name(value.get("name"), f"{member}.name")
            if not isinstance(value.get("input"), dict):
                at = place.removeprefix("#/").replace("/", ".")
                raise Refused(
                    f"The format of the value at {at}.input is invalid. Provide a json object for the field and try"
                    " again."
                )
            if value.get("type") not in (None, "server_tool_use"):
                raise _constraint(f"{member}.type", "Member must satisfy enum value set: [server_tool_use]")
        case "toolResult":
            _check_result(value, place, member)
        case "image" | "document" | "video" | "audio":
            _check_media(kind, value, place, member)
        case "reasoningContent":
            _check_reasoning(value, place, member)
        case "cachePoint":
            _check_keys(_object(value, place), words("type ttl"), place)
            if value.get("type") != "default":
                raise _constraint(f"{member}.type", "Member must satisfy enum value set: [default]")
        case _:
            _object(value, place)


def _check_result(value: Any, place: str, member: str) -> None:
    _check_keys(_object(value, place), words("toolUseId content status type"), place)
    _check_id(value.get("toolUseId"), f"{member}.toolUseId")
    if value.get("status") not in (None, "success", "error"):
        raise _constraint(f"{member}.status", "Member must satisfy enum value set: [success, error]")
    if not isinstance(content := value.get("content"), list):
        raise _constraint(f"{member}.content", "Member must not be null")
    for at, item in enumerate(content):
        kind = union(item, _RESULT_KEYS, f"{place}/content/{at}")
        if kind == "json":
            if not isinstance(item["json"], dict):
                where = place.removeprefix("#/").replace("/", ".")
                raise Refused(
                    f"The format of the value at {where}.content.{at}.json is invalid. Provide a json object for the"
                    " field and try again."
                )
            continue
        _check_block(kind, item[kind], f"{place}/content/{at}/{kind}", f"{member}.content.{at + 1}.member.{kind}")


def _check_media(kind: str, value: Any, place: str, member: str) -> None:
    _check_keys(_object(value, place), _MEDIA_KEYS[kind], place)
    known = _FORMATS[kind].split()
    if value.get("format") not in known:
        raise _constraint(f"{member}.format", f"Member must satisfy enum value set: [{', '.join(known)}]")
    source = union(value.get("source"), _SOURCES[kind], f"{place}/source")
    if source in ("bytes", "text"):
        _text(value["source"][source], f"{place}/source/{source}")
    if kind == "document" and not _DOCUMENT_NAME.fullmatch(_text(value.get("name"), f"{place}/name")):
        raise Refused(
            "The document file name can only contain alphanumeric characters, whitespace characters, hyphens,"
            " parentheses, and square brackets. The name can't contain more than one consecutive whitespace character."
        )


def _check_reasoning(value: Any, place: str, member: str) -> None:
    if union(value, words("reasoningText redactedContent"), place) == "redactedContent":
        _text(value["redactedContent"], f"{place}/redactedContent")
        return
    thought = _object(value["reasoningText"], f"{place}/reasoningText")
    _check_keys(thought, words("text signature"), f"{place}/reasoningText")
    if thought.get("text") is None:
        raise _constraint(f"{member}.reasoningText.text", "Member must not be null")
    for key, item in thought.items():
        _text(item, f"{place}/reasoningText/{key}")
