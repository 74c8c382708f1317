"""What the pretend Cerebras refuses beside OpenAI's rules, and how it says so."""

from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import HEADERS, PATHS, Caller

ASK = {"role": "user", "content": "Is 91 prime?"}
NEXT = {"role": "user", "content": "And 97?"}


def answer(**more: Any) -> list[dict[str, Any]]:
    return [ASK, {"role": "assistant", "content": "No.", **more}, NEXT]


class TestKeys:
    @pytest.mark.parametrize("key", ["reasoning_content", "reasoning_details", "refusal"])
    def test_of_other_hosts_are_refused(self, cerebras: Caller, key: str) -> None:
        response = cerebras.post(messages=answer(**{key: "7 times 13"}))

        assert response.status_code == 400
        assert response.json() == {
            "message": f"messages.1.assistant.{key}: property 'messages.1.assistant.{key}' is unsupported",
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        }

    @pytest.mark.parametrize("model", ["gpt-oss-120b", "zai-glm-4.7"])
    def test_reasoning_is_welcome_where_the_model_reasons(self, cerebras: Caller, model: str) -> None:
        cerebras.accepted(model=model, messages=answer(reasoning="7 times 13"))

    def test_reasoning_is_refused_elsewhere(self, cerebras: Caller) -> None:
        message = cerebras.refusal(model="qwen-3-coder-480b", messages=answer(reasoning="7 times 13"))

        assert message == "messages.1.assistant.reasoning: property 'messages.1.assistant.reasoning' is unsupported"

    def test_of_the_request_are_a_closed_list(self, cerebras: Caller) -> None:
        assert cerebras.refusal(messages=[ASK], store=True) == "store: property 'store' is unsupported"
        cerebras.accepted(messages=[ASK], reasoning_effort="low", clear_thinking=False)


class TestHistories:
    def test_hold_text_alone(self, cerebras: Caller) -> None:
        picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

        message = cerebras.refusal(messages=[{"role": "user", "content": [picture]}])

        assert message == (
            "messages.0.user.content.0.image_url: property 'messages.0.user.content.0.image_url' is unsupported"
        )
        cerebras.accepted(messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}])

    def test_follow_the_protocols_rules(self, cerebras: Caller) -> None:
        message = cerebras.refusal(messages=[ASK, {"role": "tool", "tool_call_id": "call_1", "content": "done"}])

        assert message.startswith("Invalid parameter: messages with role 'tool' must be a response to")


class TestRequests:
    def test_need_any_key(self, client: httpx.Client) -> None:
        response = client.post(PATHS["cerebras"], json={"model": "gpt-oss-120b", "messages": [ASK]})

        assert (response.status_code, response.json()["code"]) == (401, "wrong_api_key")

    def test_with_half_an_emoji_say_so(self, client: httpx.Client) -> None:
        response = client.post(PATHS["cerebras"], content=b'{"model": "\\ud83d"}', headers=HEADERS["cerebras"])

        assert response.status_code == 400
        assert "Invalid JSON: lone leading surrogate in hex escape" in response.json()["message"]
