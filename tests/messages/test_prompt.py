"""The JSON form of a prompt, and what copying on write shares."""

from typing import Any

import pytest

from memory.messages.prompt import (
    Origin,
    Prompt,
    Reasoning,
    Text,
    prompt_from_json,
    prompt_to_json,
    prompt_to_json_like,
)


def assistant(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": list(parts)}]


class TestJson:
    def test_gives_a_plain_text_back_unchanged(self) -> None:
        given = [{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}]
        assert prompt_to_json(prompt_from_json(given)) == given

    def test_reads_images_without_a_type(self) -> None:
        (part,) = prompt_from_json(assistant({"type": "image", "image": "AA"})).messages[0].parts
        assert getattr(part, "media_type", None) == "image/unknown"

    @pytest.mark.parametrize(
        ("given", "place"),
        [
            ([{"role": "robot", "content": "x"}], r"messages\[0\]\.role"),
            ([{"role": "user", "content": 5}], r"messages\[0\]\.content"),
            (assistant({"type": "file", "data": "AA"}), r"content\[0\].*mediaType"),
            (assistant({"type": "wish"}), r"content\[0\]\.type"),
            (assistant({"type": "tool-call", "toolName": "f"}), r"content\[0\].*toolCallId"),
            (assistant(5), r"content\[0\]"),
        ],
    )
    def test_names_the_place_of_what_it_cannot_read(self, given: Any, place: str) -> None:
        with pytest.raises(ValueError, match=place):
            prompt_from_json(given)

    def test_reads_both_spellings_of_options(self) -> None:
        part = {"type": "reasoning", "text": "t", "providerOptions": {"a": 1}, "providerMetadata": {"a": 0, "b": 2}}
        (read,) = prompt_from_json(assistant(part)).messages[0].parts
        assert read.options == {"a": 1, "b": 2}

    def test_reads_the_stamp_of_reasoning(self) -> None:
        stamp = {"mastra": {"provider": "openai.chat", "protocol": "openai-chat", "modelId": "m"}}
        (read,) = (
            prompt_from_json(assistant({"type": "reasoning", "text": "t", "providerOptions": stamp})).messages[0].parts
        )
        assert isinstance(read, Reasoning)
        assert read.origin == Origin("openai", "openai-chat", "m")

    def test_gives_back_what_was_left_alone_as_it_was_spelt(self) -> None:
        odd = {"type": "text", "text": "a", "providerMetadata": {"p": 1}, "cached": True}
        given = [*assistant(odd, {"type": "text", "text": "b"}), {"role": "user", "content": [odd], "note": 1}]
        source = prompt_from_json(given)
        changed = source.map_parts(lambda _, p: None if isinstance(p, Text) and p.text == "b" else p)
        assert prompt_to_json_like(changed, source, given) == [*assistant(odd), given[1]]


class TestSharing:
    def test_gives_the_same_object_when_nothing_changed(self) -> None:
        prompt = prompt_from_json(assistant({"type": "text", "text": "a"}))
        assert prompt.map_parts(lambda _, part: part) is prompt
        assert prompt.with_messages(list(prompt.messages)) is prompt

    def test_shares_messages_that_did_not_change(self) -> None:
        prompt = prompt_from_json([{"role": "user", "content": [{"type": "text", "text": "q"}]}, *assistant()])
        changed = prompt.map_parts(lambda _, part: None, roles=("user",))
        assert changed.messages == (prompt.messages[1],)
        assert changed.messages[0] is prompt.messages[1]
        assert Prompt(()).messages == ()
