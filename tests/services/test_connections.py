"""Where a provider is reached: its row, else its vendor's address, also for what it speaks beside its own protocol."""

import json

import pytest

from memory.errors import InvalidInput
from memory.models import Message, Provider
from memory.sandbox import Sandbox
from memory.services import agents
from memory.services.connections import connection_for
from memory.services.runs import GenerateRequest, generate
from tests.make import caller

pytestmark = pytest.mark.django_db


class TestAddresses:
    @pytest.mark.parametrize(
        ("provider", "protocol", "address"),
        [
            ("deepseek", "openai-chat", "https://api.deepseek.com/v1"),
            ("deepseek", "anthropic-messages", "https://api.deepseek.com/anthropic/v1"),
            ("moonshot", "anthropic-messages", "https://api.moonshot.ai/anthropic/v1"),
        ],
    )
    def test_of_a_row_without_one_are_the_vendors(self, provider: str, protocol: str, address: str) -> None:
        Provider.objects.create(id=provider, protocol=protocol, base_url="")
        found = connection_for(provider, with_key=False)
        assert (found.base_url, found.protocol) == (address, protocol)

    def test_are_not_guessed_for_a_protocol_the_vendor_does_not_speak(self) -> None:
        Provider.objects.create(id="groq", protocol="anthropic-messages", base_url="")
        with pytest.raises(InvalidInput, match="has no address"):
            connection_for("groq", with_key=False)


@pytest.mark.parametrize(("provider", "model"), [("deepseek", "deepseek-v4-pro"), ("moonshot", "kimi-k2.6")])
def test_a_host_is_called_by_anthropics_protocol(sandbox: Sandbox, provider: str, model: str) -> None:
    Provider.objects.create(id=provider, protocol="anthropic-messages", base_url=f"sandbox:{provider}")
    agent = agents.create_agent(caller(), {"id": "a", "name": "A", "model": f"{provider}/{model}"})
    for text in ("Hello there", "And again"):
        generate(caller(), agent.id, GenerateRequest(messages=text, thread_id="t"))
    assert [seen["status"] for seen in sandbox.requests(provider)] == [200, 200]
    assert "x-api-key" in sandbox.requests(provider)[0]["headers"]
    content = json.loads(Message.objects.filter(role="assistant").latest("seq").content)
    assert [part["type"] for part in content["parts"]] == ["reasoning", "text"]
    assert content["metadata"]["protocol"] == "anthropic-messages"
    # Its own thinking goes back to it.
    again = sandbox.requests(provider)[1]["body"]["messages"][1]["content"]
    assert [block["type"] for block in again] == ["thinking", "text"]
