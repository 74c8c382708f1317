"""The checker, as somebody's CI calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import memory
from memory.check import check, main
from memory.messages.names import ModelRef

THREADS = Path(memory.__path__[0]) / "demo" / "threads"
HISTORY = {
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "functions.look:0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "functions.look:0", "content": "seen"},
        {"role": "user", "content": "and?"},
    ]
}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    file = tmp_path / "history.json"
    file.write_text(json.dumps(HISTORY))
    return file


class TestMain:
    def test_names_what_would_break(self, history: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([str(history), "--to", "anthropic/claude-sonnet-4-5"]) == 1
        out = capsys.readouterr().out
        assert "anthropic-tool-id-charset" in out
        assert "2 assistant" in out
        assert "would refuse 1 threads" in out

    def test_says_when_all_is_well(self, history: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([str(history), "--to", "openai/gpt-4o"]) == 0
        assert capsys.readouterr().out == "openai/gpt-4o would take everything as it is.\n"

    def test_speaks_json(self, history: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main([str(history), "--to", "mistral/mistral-large-latest", "--json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["rule"] for one in found] == ["mistral-tool-id-format", "mistral-user-after-tool"]
        assert {one["severity"] for one in found} == {"breaks"}

    def test_tells_what_it_can_t_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "odd.jsonl"
        file.write_text(json.dumps(HISTORY) + "\n{broken\n")
        assert main([str(file), str(tmp_path / "absent"), "--to", "anthropic/claude-sonnet-4-5"]) == 2
        told = capsys.readouterr()
        assert "odd.jsonl, line 2" in told.err
        assert "absent" in told.err
        assert "anthropic-tool-id-charset" in told.out

    def test_joins_lines_that_go_on(self, capsys: pytest.CaptureFixture[str]) -> None:
        main([str(THREADS), "--to", "anthropic/claude-sonnet-4-5", "--json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        places = [(one["thread"], one["message"], one["rule"], one["reason"]) for one in found]
        assert len(places) > 10
        assert len({thread for thread, *_ in places}) < 14

    def test_needs_no_django_and_no_settings(self, history: Path) -> None:
        program = (
            "import sys; sys.modules['django'] = None; from memory.check import main;"
            "sys.exit(main([sys.argv[1], '--to', 'anthropic/claude-sonnet-4-5']))"
        )
        ended = subprocess.run([sys.executable, "-c", program, history], capture_output=True, text=True, env={})
        assert (ended.returncode, ended.stderr) == (1, "")

    @pytest.mark.parametrize("target", ["gpt-4o", "antropic/claude-sonnet-4-5", "/x", ""])
    def test_wants_a_known_provider(self, history: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main([str(history), "--to", target])
        assert ended.value.code == 2
        assert "anthropic" in capsys.readouterr().err


def test_check_leaves_the_thread_alone() -> None:
    thread = [
        {"id": "a", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "hi"}]}},
        {"id": "b", "role": "assistant", "content": {"format": 2, "parts": [{"type": "reasoning", "reasoning": "hm"}]}},
    ]
    before = json.dumps(thread)
    found = check("t", thread, ModelRef("cerebras", "zai-glm-4.7"))
    assert [(one.message, one.rule) for one in found] == [(2, "cerebras-reasoning-content")]
    assert json.dumps(thread) == before
