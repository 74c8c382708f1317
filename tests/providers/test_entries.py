from __future__ import annotations

import re
from pathlib import Path

import pytest

import memory.providers
from memory.errors import InvalidInput
from memory.messages.names import PROTOCOLS as PROTOCOL_IDS
from memory.messages.names import PROVIDERS
from memory.providers import ENTRIES, PROTOCOLS, wire_module
from memory.providers.entries import entry_for


class TestEntries:
    def test_there_is_one_for_every_provider_id(self) -> None:
        assert list(ENTRIES) == list(PROVIDERS)

    def test_each_names_a_protocol_that_exists(self) -> None:
        assert {entry.protocol for entry in ENTRIES.values()} <= set(PROTOCOL_IDS)

    def test_an_unknown_provider_is_treated_as_other(self) -> None:
        assert entry_for("nobody").id == "other"


class TestWireModule:
    def test_gives_the_module_of_the_protocol(self) -> None:
        assert [wire_module(protocol).PROTOCOL for protocol in PROTOCOLS] == list(PROTOCOLS)

    def test_names_the_supported_ones_for_another(self) -> None:
        with pytest.raises(InvalidInput, match="anthropic-messages, openai-chat") as caught:
            wire_module("smoke-signals")
        assert caught.value.code == "protocol_not_supported"

    def test_every_protocol_file_is_in_the_list(self) -> None:
        files = Path(memory.providers.__file__).parent.glob("*.py")
        protocols = {path.stem for path in files if re.search(r"^PROTOCOL = ", path.read_text(), re.M)}
        assert protocols == {protocol.replace("-", "_") for protocol in PROTOCOLS}
