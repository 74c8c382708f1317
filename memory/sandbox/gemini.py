"""Google's Gemini API and Vertex AI: who may call, what they refuse in their own words, their error bodies.

`Refused` is raised where the vendor answers with an error: keys and types first, then the whole conversation. Keys are
taken in camelCase and in snake_case, as the vendor does. Source: Google's API references (contents, function calling,
thought signatures), errors reported by client projects, and recorded requests that were answered; last seen
September 2026. What is not listed is refused.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from memory.sandbox.gemini_turns import Turn, check_conversation
from memory.sandbox.gemini_words import DATA_KEYS, camelled, items_of, version
from memory.sandbox.wire import BadJson, Refused, words

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_MEDIA_TYPES = re.compile(
    r"image/(png|jpeg|webp|heic|heif)|video/[\w.+-]+|audio/[\w.+-]+|application/pdf|text/(plain|markdown|csv|x-[\w.+-]+)"
)
_REQUEST_KEYS = words(
    "model contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent labels "
    "serviceTier store modelArmorConfig"
)
_GENERATION_KEYS = words(
    "stopSequences responseMimeType responseSchema responseJsonSchema responseModalities candidateCount "
    "maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs "
    "enableEnhancedCivicAnswers speechConfig thinkingConfig imageConfig mediaResolution audioTimestamp routingConfig "
    "modelSelectionConfig"
)
_TOOL_KEYS = words(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext googleMaps fileSearch "
    "computerUse retrieval enterpriseWebSearch mcpServers"
)
_DECLARATION_KEYS = words("name description behavior parameters parametersJsonSchema response responseJsonSchema")
_PART_KEYS = words("thought thoughtSignature videoMetadata mediaResolution partMetadata") | frozenset(DATA_KEYS)
_INNER_KEYS = {
    "inlineData": words("mimeType data displayName"),
    "fileData": words("mimeType fileUri displayName"),
    "functionCall": words("id name args partialArgs willContinue"),
    "functionResponse": words("id name response parts willContinue scheduling"),
    "executableCode": words("id language code"),
    "codeExecutionResult": words("id outcome output"),
    "toolCall": words("id toolType args"),
    "toolResponse": words("id toolType response"),
}
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


def authorise_key(headers: Mapping[str, str]) -> None:
    """Gemini API: any key is right; raises Refused with 403 without one."""
    if not headers.get("x-goog-api-key", "").strip():
        raise Refused(
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or"
            " other form of API consumer identity to call this API.",
            status=403,
            kind="PERMISSION_DENIED",
        )


def authorise_token(headers: Mapping[str, str]) -> None:
    """Vertex: any bearer token or key is right; raises Refused with 401 without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("x-goog-api-key", "").strip():
        raise failure(401)


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    error: dict[str, Any] = {"code": refused.status, "message": refused.message, "status": refused.kind}
    if refused.code:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        error["details"] = [{"@type": kind, "retryDelay": refused.code}]
    return {"error": error}


_FAILURES = {
    401: (
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid"
        " authentication credential.",
    ),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Requested entity was not found."),
    413: ("INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: (
        "INTERNAL",
        "An internal error has occurred. Please retry or report in https://developers.generativeai.google",
    ),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
}


def failure(status: int) -> Refused:
    """What the Gemini API says with this status when nothing is wrong with the conversation."""
    kind, message = _FAILURES.get(status, ("INVALID_ARGUMENT" if status < 500 else "INTERNAL", "Error"))
    # The wait stands in the body, not in a header.
    return Refused(message, status=status, kind=kind, code="20s" if status == 429 else None)


def vertex_failure(status: int) -> Refused:
    """What Vertex says: it names no wait."""
    if status == 429:
        return Refused(
            "Resource exhausted. Please try again later. Please refer to"
            " https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.",
            status=429,
            kind="RESOURCE_EXHAUSTED",
        )
    return failure(status)


def bad_json(error: BadJson) -> Refused:
    return invalid(f"Invalid JSON payload received. {error.reason}: {error.place}")


def invalid(message: str) -> Refused:
    return Refused(message, kind="INVALID_ARGUMENT")


def check(body: Any) -> None:
    """Nothing when the Gemini API would answer this body, with the path's `model` in it; else raises Refused."""
    _check(body, is_vertex=False)


def check_vertex(body: Any) -> None:
    """The same for Vertex, which words some refusals in its own way."""
    _check(body, is_vertex=True)


def _check(body: Any, *, is_vertex: bool) -> None:
    if not isinstance(body, dict):
        raise invalid("Invalid JSON payload received. Expected an object.")
    request = _object(body, "", _REQUEST_KEYS)
    if not isinstance(request.get("contents"), dict | list) or not request["contents"]:
        raise invalid("* GenerateContentRequest.contents: contents is not specified")
    model = str(request.get("model"))
    if request.get("systemInstruction") is not None:
        _check_content(request["systemInstruction"], "system_instruction", model, is_vertex=is_vertex)
    for at, tool in enumerate(items_of(request, "tools", _wrong_type)):
        _check_tool(tool, f"tools[{at}]")
    _check_config(request)
    turns = [
        _check_content(content, f"contents[{index}]", model, is_vertex=is_vertex)
        for index, content in enumerate(items_of(request, "contents", _wrong_type))
    ]
    check_conversation(turns, model, is_vertex=is_vertex)


def _check_content(value: Any, place: str, model: str, *, is_vertex: bool) -> Turn:
    content = _object(value, place, words("role parts"))
    role = content.get("role") or "user"
    if role not in ("user", "model", "function"):
        raise invalid("Please use a valid role: user, model.")
    parts = items_of(content, "parts", _wrong_type, place)
    if not parts:
        raise _no_parts(place)
    read = [_check_part(part, f"{place}.parts[{at}]", is_vertex=is_vertex) for at, part in enumerate(parts)]
    for part in read:
        # A signature may come with an empty text; Gemini 3 of the Gemini API takes an empty text of the user.
        is_spared = not is_vertex and role == "user" and version(model) >= 3
        if part.get("text") == "" and "thoughtSignature" not in part and not is_spared:
            if is_vertex:
                raise invalid("Unable to submit request because it must have a text parameter.")
            raise _no_parts(place)
    return Turn("model" if role == "model" else "user", tuple(read))


def _no_parts(place: str) -> Refused:
    return invalid(f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty.")


def _check_part(value: Any, place: str, *, is_vertex: bool) -> dict[str, Any]:
    part = _object(value, place, _PART_KEYS)
    kinds = [key for key in DATA_KEYS if key in part]
    if len(kinds) > 1:
        raise invalid(f"Invalid value at '{place}' (oneof), oneof field 'data' is already set. Cannot set '{kinds[1]}'")
    if "text" in part and not isinstance(part["text"], str):
        raise _wrong_type(f"{place}.text", "TYPE_STRING", part["text"])
    signature = part.get("thoughtSignature")
    if signature is not None and not isinstance(signature, str):
        raise _wrong_type(f"{place}.thought_signature", "TYPE_BYTES", signature)
    for kind in kinds:
        if kind in _INNER_KEYS:
            part[kind] = _object(part[kind], f"{place}.{_snake(kind)}", _INNER_KEYS[kind])
            if checked := _CHECKS.get(kind):
                checked(part[kind], f"{place}.{_snake(kind)}", is_vertex)
    return part


def _check_call(call: dict[str, Any], place: str, is_vertex: bool) -> None:
    _check_name(call.get("name"), f"{place}.name")
    if not isinstance(call.get("args", {}), dict):
        raise _wrong_type(f"{place}.args", "type.googleapis.com/google.protobuf.Struct", call["args"])
    _check_id(call, place)


def _check_response(response: dict[str, Any], place: str, is_vertex: bool) -> None:
    if not response.get("name"):
        raise invalid(f"* GenerateContentRequest.{place}.name: Name cannot be empty.")
    _check_name(response["name"], f"{place}.name")
    if not isinstance(response.get("response", {}), dict):
        raise _wrong_type(f"{place}.response", "type.googleapis.com/google.protobuf.Struct", response["response"])
    _check_id(response, place)
    for at, item in enumerate(items_of(response, "parts", _wrong_type, place)):
        inner = _object(item, f"{place}.parts[{at}]", words("inlineData fileData"))
        for kind in inner:
            file = _object(inner[kind], f"{place}.parts[{at}].{_snake(kind)}", _INNER_KEYS[kind])
            _CHECKS[kind](file, f"{place}.parts[{at}].{_snake(kind)}", is_vertex)


def _check_inline(file: dict[str, Any], place: str, is_vertex: bool) -> None:
    _check_media_type(file, place)
    data = file.get("data")
    if not isinstance(data, str):
        raise _wrong_type(f"{place}.data", "TYPE_BYTES", data)
    if not is_base64(data):
        raise invalid(f"Invalid value at '{place}.data' (TYPE_BYTES), Base64 decoding failed for \"{data[:100]}\"")


def _check_remote(file: dict[str, Any], place: str, is_vertex: bool) -> None:
    if not isinstance(file.get("fileUri"), str) or not file["fileUri"]:
        raise invalid(f"* GenerateContentRequest.{place}.file_uri: File URI cannot be empty.")
    if is_vertex or "mimeType" in file:  # the Gemini API knows the type of what was sent to it
        _check_media_type(file, place)


def _check_media_type(file: dict[str, Any], place: str) -> None:
    media_type = file.get("mimeType")
    if not isinstance(media_type, str):
        raise _wrong_type(f"{place}.mime_type", "TYPE_STRING", media_type)
    if not _MEDIA_TYPES.fullmatch(media_type):
        raise invalid(f"Unsupported MIME type: {media_type}")


_CHECKS: dict[str, Callable[[dict[str, Any], str, bool], None]] = {
    "functionCall": _check_call,
    "functionResponse": _check_response,
    "inlineData": _check_inline,
    "fileData": _check_remote,
}


def is_base64(text: str) -> bool:
    """Whether it is base64 of either alphabet; the vendor takes both, padded or not."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _check_tool(value: Any, place: str) -> None:
    tool = _object(value, place, _TOOL_KEYS)
    for at, item in enumerate(items_of(tool, "functionDeclarations", _wrong_type, place)):
        inner = f"{place}.function_declarations[{at}]"
        declared = _object(item, inner, _DECLARATION_KEYS)
        _check_name(declared.get("name"), f"{inner}.name")
        if "parameters" in declared and "parametersJsonSchema" in declared:
            raise invalid(
                f"{inner}: [FIELD_INVALID] parameters and parameters_json_schema must not be set at the same time."
            )
        for key in ("parameters", "parametersJsonSchema"):
            if key in declared and not isinstance(declared[key], dict):
                raise _wrong_type(f"{inner}.{_snake(key)}", "type.googleapis.com/google.protobuf.Value", declared[key])


def _check_config(request: dict[str, Any]) -> None:
    if request.get("generationConfig") is not None:
        _object(request["generationConfig"], "generation_config", _GENERATION_KEYS)
    if request.get("toolConfig") is None:
        return
    config = _object(
        request["toolConfig"],
        "tool_config",
        words("functionCallingConfig retrievalConfig includeServerSideToolInvocations"),
    )
    if config.get("functionCallingConfig") is None:
        return
    place = "tool_config.function_calling_config"
    calling = _object(
        config["functionCallingConfig"], place, words("mode allowedFunctionNames streamFunctionCallArguments")
    )
    if calling.get("mode", "AUTO") not in _MODES:
        raise _wrong_type(f"{place}.mode", "google.ai.generativelanguage.FunctionCallingConfig.Mode", calling["mode"])
    names = items_of(calling, "allowedFunctionNames", _wrong_type, place)
    if names and calling.get("mode") not in ("ANY", "VALIDATED"):
        raise invalid("Function calling config: allowed_function_names should be set only when mode is ANY.")


def _check_name(name: Any, place: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(
            f"{place}: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z,"
            " A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
        )


def _check_id(value: dict[str, Any], place: str) -> None:
    if not isinstance(value.get("id", ""), str):
        raise _wrong_type(f"{place}.id", "TYPE_STRING", value["id"])


def _object(value: Any, place: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(place, "an object", value)
    out = camelled(value)
    for key in value:
        if _camel(key) not in known:
            at = f" at '{place}'" if place else ""
            raise invalid(f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.')
    return out


def _wrong_type(place: str, kind: str, value: Any) -> Refused:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return invalid(f"Invalid value at '{place}' ({kind}), {shown[:200]}")


def _camel(key: str) -> str:
    return next(iter(camelled({key: 0})))


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), key)
