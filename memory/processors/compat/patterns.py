"""Words by which each provider's refusals are known: pattern by rule id, searched in an error's message and body.

Sources: public reports, collected with their literal messages.
"""

from __future__ import annotations

PATTERNS: dict[str, str] = {
    "any-nul-character": r"\\u0000 cannot be converted to text|cannot contain NUL \(0x00\)|unsupported Unicode escape sequence",  # noqa: E501
    "any-lone-surrogate": r"no (?:low|high) surrogate in string|lone (?:leading|trailing) surrogate|surrogates not allowed",  # noqa: E501
    "any-unknown-field": r"Extra inputs are not permitted|Unrecognized (?:request argument|key)|Unknown parameter: '(?:messages|input|contents)\b|Unknown name \\?\"[\w-]+\\?\" at|extraneous key \[[\w-]+\]|unknown field\b|property '[^']+' is unsupported",  # noqa: E501
    "anthropic-tool-id-charset": r"tool_use(?:\.id|_id): String should match pattern '\^\[a-zA-Z0-9_-\]\+\$'",
    "anthropic-server-tool-id": r"server_tool_use\.id: String should match pattern",
    "anthropic-server-tool-orphan": r"unexpected `?tool_use_id`? found in `?(?!tool_result`?\b)\w+_tool_result`? blocks",  # noqa: E501
    "anthropic-tool-id-duplicate": r"`?tool_use`? ids must be unique",
    "anthropic-tool-result-duplicate": r"each tool_use must have a single result",
    "anthropic-tool-result-missing": r"`?tool_use`? ids were found without `?tool_result`? blocks immediately after",
    "anthropic-tool-result-grouping": r"Did not find \d+ `?tool_result`? block\(s\) at the beginning of this message",
    "anthropic-tool-result-orphan": r"unexpected `?tool_use_id`? found in `?tool_result`? blocks",
    "anthropic-tool-input-object": r"tool_use\.input: Input should be (?:a valid dictionary|an object)",
    "anthropic-tools-missing": r"must define tools|doesn't support tool calling without `tools=` param",
    "anthropic-thinking-signature-invalid": r"Invalid `?signature`? in `?(?:redacted_)?thinking`? block",
    "anthropic-thinking-signature-missing": r"thinking\.signature: Field required",
    "anthropic-thinking-empty": r"each thinking block must contain thinking",
    "anthropic-thinking-modified": r"blocks in the latest assistant message cannot be modified",
    "anthropic-thinking-must-lead": r"Expected `thinking` or `redacted_thinking`, but found `\w+`",
    "anthropic-thinking-when-disabled": r"When thinking is disabled, an `assistant` message in the final position cannot contain",  # noqa: E501
    "anthropic-prefill-unsupported": r"does not support assistant message prefill|must end with a user message",
    "anthropic-trailing-whitespace": r"final assistant content cannot end with trailing whitespace",
    "anthropic-empty-text": r"text content blocks must be non-empty",
    "anthropic-whitespace-text": r"text content blocks must contain non-whitespace text",
    "anthropic-empty-message": r"all messages must have non-empty content",
    "anthropic-cache-control-limit": r"A maximum of 4 blocks with cache_control may be provided",
    "anthropic-cache-control-empty": r"cache_control cannot be set for empty text blocks",
    "anthropic-role-system": r"""Unexpected role \\?\"(?:system|developer|tool|function)\\?\"""",
    "anthropic-first-message-user": r"""first message must use the \\?\"user\\?\" role""",
    "anthropic-role-alternation": r"roles must alternate between",
    "anthropic-unknown-field": r"messages\.\d+\.(?:[\w-]+\.)*[\w-]+: Extra inputs are not permitted",
    "anthropic-image-dimensions": r"image dimensions exceed max allowed size",
    "anthropic-image-bytes": r"image exceeds \d+ MB maximum",
    "anthropic-image-unreadable": r"Could not process image|image was specified using the \S+ media type|Image does not match the provided media type",  # noqa: E501
    "openai-chat-tool-id-length": r"Invalid 'messages\[\d+\]\.(?:tool_calls\[\d+\]\.id|tool_call_id)': (?:string too long|empty string)",  # noqa: E501
    "openai-chat-tool-name": r"Invalid '(?:messages\[\d+\]\.tool_calls\[\d+\]|tools\[\d+\])\.function\.name': ",
    "openai-chat-message-name": r"Invalid 'messages\[\d+\]\.name': string does not match pattern",
    "openai-chat-tool-result-orphan": r"(?i)messages with role 'tool' must be a response to a prece+ding message with 'tool_calls'",  # noqa: E501
    "openai-chat-tool-result-missing": r"""An assistant message with '?\"?tool_calls'?\"? must be followed by tool messages""",  # noqa: E501
    "openai-chat-empty-tool-calls": r"Invalid 'messages\[\d+\]\.tool_calls': empty array",
    "openai-chat-null-content": r"Invalid value for 'content': expected a string, got null",
    "openai-chat-image-in-tool": r"Image URLs are only allowed for messages with role 'user'",
    "openai-chat-foreign-part": r"Invalid value: '(?:thinking|redacted_thinking|tool_use|tool_result|reasoning|server_tool_use)'\. Supported values",  # noqa: E501
    "openai-responses-reasoning-orphan": r"of type 'reasoning' was provided without its required following item",
    "openai-responses-reasoning-required": r"was provided without its required 'reasoning' item",
    "openai-responses-item-not-found": r"Item with id '[^']+' not found",
    "openai-responses-item-id-format": r"Invalid 'input\[\d+\]\.id': '[^']*'\. Expected an ID that",
    "openai-responses-duplicate-item": r"Duplicate item found with id",
    "openai-responses-encrypted-content": r"encrypted content .{0,200}could not be verified|encrypted_content was not issued to this caller|invalid_encrypted_content",  # noqa: E501
    "openai-responses-tool-output-orphan": r"No tool call found for function call output with call_id",
    "openai-responses-tool-output-missing": r"No tool output found for function call",
    "openai-responses-call-id-length": r"Invalid 'input\[\d+\]\.call_id': (?:string too long|empty string)",
    "openai-responses-content-type": r"Invalid value: '(?:input_text|text)'\. Supported values are: 'output_text' and 'refusal'",  # noqa: E501
    "openai-responses-previous-id": r"Previous response with id '[^']*' not found|previous_response_not_found",
    "azure-content-filter": r"prompt triggering Azure OpenAI.s content management policy|ResponsibleAIPolicyViolation",
    "azure-developer-role": r"'?developer'? is not one of \[",
    "bedrock-tool-config-missing": r"toolConfig field must be defined when using toolUse and toolResult",
    "bedrock-tool-id-pattern": r"toolUseId' failed to satisfy constraint",
    "bedrock-tool-name-pattern": r"tool(?:Use|Spec)\.name' failed to satisfy constraint",
    "bedrock-tool-id-duplicate": r"toolUse blocks at messages\.\d+\.content contain duplicate Ids",
    "bedrock-tool-result-missing": r"Expected toolResult blocks at messages\.\d+\.content for the following Ids",
    "bedrock-tool-result-orphan": r"number of toolResult blocks at messages?\.\d+\.content exceeds",
    "bedrock-blank-text": r"text field in the ContentBlock object at messages\.\d+\.content\.\d+ is blank|must contain non-whitespace text",  # noqa: E501
    "bedrock-empty-content": r"content field in the Message object at messages\.\d+ is empty",
    "bedrock-document-rules": r"text block must be included when using documents|[Dd]uplicate document names|document names of a request must differ",  # noqa: E501
    "bedrock-role-order": r"A conversation must (?:start with a user message|alternate between user and assistant roles|end with a user message)",  # noqa: E501
    "bedrock-reasoning-foreign": r"doesn't support the reasoningContent",
    "gemini-thought-signature-missing": r"Function call is missing a thought_signature",
    "gemini-thought-signature-invalid": r"Corrupted thought signature|Thought signature is not valid",
    "gemini-function-response-count": r"number of function response parts (?:is|should be) equal to (?:the )?number of function call parts",  # noqa: E501
    "gemini-function-call-order": r"function call turn comes immediately after a user turn",
    "gemini-function-response-order": r"function response turn comes immediately after a function call turn",
    "gemini-function-name": r"Invalid function name\. Must start with a letter or an underscore",
    "gemini-function-response-name": r"function_response\.name: Name cannot be empty",
    "gemini-function-response-object": r"function_(?:response\.response|call\.args)' \(type\.googleapis\.com/google\.protobuf\.Struct\)",  # noqa: E501
    "gemini-empty-parts": r"contents\.parts must not be empty|must have a text parameter|must include at least one parts field",  # noqa: E501
    "gemini-mime-type": r"Unsupported MIME type|Unable to process input image|Provided image is not valid",
    "gemini-turn-end": r"requests ends? with a user role|Please use a valid role: user, model",
    "mistral-tool-id-format": r"Tool call id was .{0,200}? but must be a-z, A-Z, 0-9, with a length of 9",
    "mistral-user-after-tool": r"Unexpected role '(?:user|system)' after role 'tool'",
    "mistral-tool-order": r"Unexpected role (?:'tool' after role|RoleEnum\.tool)|Not the same number of function calls and responses",  # noqa: E501
    "mistral-last-role": r"Expected last role User or Tool",
    "mistral-extra-field": r"""extra_forbidden.{0,80}?\\?\"messages\\?\"""",
    "mistral-reasoning-unsupported": r"Reasoning input is not enabled for this model",
    "mistral-tool-content": r"ToolMessage.{0,120}Input should be <ChunkTypes\.text",
    "mistral-empty-assistant": r"Assistant message must have either content or tool_calls",
    "cerebras-reasoning-content": r"property 'messages\.\d+\.\w+\.[\w.]+' is unsupported",
    "groq-unsupported-property": r"'messages\.\d+' : property '[\w.]+' is unsupported",
    "groq-content-string": r"'messages\.\d+\.content' : value must be a string",
    "deepseek-reasoning-required": r"in the thinking mode must be passed back to the API",
    "deepseek-reasoning-forbidden": r"reasoning_content.{0,40}not (?:allowed|supported) in (?:the )?input",
    "deepseek-image-part": r"unknown variant `(?:image_url|input_audio|file|video_url)`, expected `text`|messages\[\d+\](?:\.content)?: invalid type: sequence, expected a string",  # noqa: E501
    "deepseek-role": r"\.role: unknown variant `\w+`, expected",
    "xai-empty-content": r"Each message must have at least one content element",
    "xai-null-field": r"did not match any variant of untagged enum ModelInput",
    "cohere-tool-result-missing": r"invalid request: An assistant message with '?tool_calls'? must be followed by tool messages",  # noqa: E501
    "cohere-empty-message": r"all elements in history must have a message|message must be at least 1 token long",
    "cohere-message-and-tool-results": r"cannot specify (?:both message and tool_results|message if the last entry)",
    "moonshot-reasoning-required": r"thinking is enabled but reasoning_content is missing in assistant tool call message",  # noqa: E501
    "moonshot-empty-message": r"message at position \d+ with role '\w+' must not be empty",
    "moonshot-part-type": r"contains an invalid part type: \w+",
    "qwen-arguments-json": r"""function\.arguments\\?\" parameter of the code model must be in JSON format""",
    "qwen-tool-order": r"InternalError\.Algo\.InvalidParameter: (?:messages with role|An assistant message with)",
    "qwen-role": r"developer is not one of \['system'",
    "zhipu-messages-illegal": r"messages 参数非法|The messages parameter is illegal",
    "zhipu-part-field": r"message\[\d+\]\.content\[\d+\] has invalid field\(s\)",
    "minimax-tool-pairing": r"tool result's tool id\(.*?\) not found|tool call and result not match|tool call result does not follow tool call",  # noqa: E501
    "minimax-tool-id": r"tool call id is invalid",
    "minimax-arguments-json": r"invalid function arguments json string",
    "fireworks-extra-field": r"Extra inputs are not permitted, field: '",
    "openrouter-wrapped-error": r"^Provider returned error$",
    "openrouter-reasoning-details": r"Duplicate item found with id",
    "ollama-arguments-object": r"cannot unmarshal string into Go struct field ChatRequest\.messages\S* of type (?:api\.ToolCallFunctionArguments|map)",  # noqa: E501
    "ollama-content-type": r"invalid message content type: <nil>|cannot unmarshal (?:array|object) into Go struct field ChatRequest\.messages of type string|'content' field must be a string or an array of objects",  # noqa: E501
    "vllm-arguments-json": r"""^(?:.*\")?(?:Expecting (?:value|',' delimiter|property name)|Unterminated string starting at|Invalid control character at).*line \d+ column \d+|'\w+ object' has no attribute 'items'|Can only get item pairs from a mapping""",  # noqa: E501
    "vllm-role-alternation": r"onversation roles must alternate user/assistant",
    "vllm-system-first": r"System message must be at the beginning",
}

NO_REPAIR: dict[str, str] = {
    "openai-chat-empty-tool-calls": "A message without calls is sent without the key; the list is never empty.",
    "openai-responses-content-type": "What the assistant said is sent as output_text or plain text, never as input.",
    "cohere-message-and-tool-results": "Only Cohere's first API has both; requests are made for the second one.",
    "openrouter-wrapped-error": "What the host behind OpenRouter said is unwrapped and read as its own.",
}
"""Refusals that no request made here can meet, or that say nothing themselves, and why. The error is shown as it is."""
