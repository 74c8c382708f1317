"""The commands that import histories, and that try how they would fare."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from django.core.management import CommandError, call_command

from memory.models import Job, Message, Thread
from memory.services import jobs
from memory.services.job_kinds import KINDS

pytestmark = pytest.mark.django_db


def run(name: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two conversations, one with an id that Claude refuses, and 25 lines without a request."""
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello?"}]}
    call = {"id": "call:1", "type": "function", "function": {"name": "greet", "arguments": "{}"}}
    calls = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call:1", "content": "Hi"}]
    tools = {"model": "gpt-4o", "messages": [*body["messages"], *calls]}
    lines = [body, {"id": "t.1", "provider": "openai", "protocol": "openai-chat", "request": tools}]
    lines += [{"id": f"n.{i}", "request": None, "protocol": "openai-chat"} for i in range(25)]
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    return path


class TestInTheBackground:
    def test_is_a_job_with_the_file_in_it(self, file: Path) -> None:
        line = run("import_history", str(file), "--resource", "ada", "--background")
        job = Job.objects.get()
        assert line == f"{job.id}: Import history.jsonl\n"
        assert not Thread.objects.exists()
        file.unlink()
        assert jobs.do_job(job.id, KINDS)
        job.refresh_from_db()
        assert (job.status, job.result["threads made"], job.result["left out"]) == ("done", 2, 25)
        assert Thread.objects.filter(resource_id="ada").count() == 2

    def test_of_what_is_no_file_is_refused_without_its_password(self, tmp_path: Path) -> None:
        for name in (str(tmp_path), str(tmp_path / "none.json"), "postgresql://me:secret@host/db"):
            with pytest.raises(CommandError, match="can't be read as a file") as raised:
                run("import_history", name, "--background")
            assert "secret" not in str(raised.value)
        assert not Job.objects.exists()


class TestImportHistory:
    def test_prints_counts_and_names_what_was_left_out(self, file: Path) -> None:
        lines = run("import_history", str(file), "--resource", "ada").splitlines()
        assert lines[0] == "threads made: 2, extended: 0, messages added: 3, lines unchanged: 0, left out: 25"
        assert lines[1] == "  n.0: it holds no request"
        assert lines[-1] == "  and 5 more"
        assert len(lines) == 22
        assert set(Thread.objects.values_list("resource_id", flat=True)) == {"ada"}

    def test_again_adds_nothing_and_still_succeeds(self, file: Path) -> None:
        run("import_history", str(file))
        before = list(Message.objects.values())
        assert "messages added: 0, lines unchanged: 2" in run("import_history", str(file))
        assert list(Message.objects.values()) == before

    def test_takes_one_body_over_several_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "body.json"
        path.write_bytes(msgspec.json.format(b'{"messages": [{"role": "user", "content": "Hi"}]}', indent=2))
        assert "threads made: 1" in run("import_history", str(path))

    def test_fails_when_a_file_can_t_be_read(self, tmp_path: Path, file: Path) -> None:
        with pytest.raises(CommandError, match=r"absent\.jsonl can't be read: No such file"):
            run("import_history", str(file), str(tmp_path / "absent.jsonl"))

    def test_fails_when_nothing_could_be_imported(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.jsonl"
        path.write_text("{oops\n")
        with pytest.raises(CommandError, match="Nothing could be imported"):
            run("import_history", str(path))

    def test_refuses_a_resource_that_no_row_can_hold(self, file: Path) -> None:
        with pytest.raises(CommandError, match=r"--resource: expected"):
            run("import_history", str(file), "--resource", "a\nb")
        assert not Thread.objects.exists()

    def test_reads_a_folder_and_takes_the_lists_of_one_thread_together(self, file: Path, tmp_path: Path) -> None:
        about = {"thread_id": "thread_1", "run_id": "run_1"}
        call = {"id": "call_1", "type": "function", "function": {"name": "depth", "arguments": "{}", "output": "4 m"}}
        details = {"type": "tool_calls", "tool_calls": [call]}
        lists = {
            "messages": [
                {"id": "msg_1", "object": "thread.message", "role": "user", "created_at": 1, "content": "Hm?"}
            ],
            "steps": [{"id": "step_1", "object": "thread.run.step", "created_at": 2, "step_details": details, **about}],
        }
        for name, data in lists.items():
            (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode({"object": "list", "data": data}))
        (tmp_path / "notes.txt").write_text("not for us")
        out = run("import_history", str(tmp_path))
        assert "threads made: 3, extended: 0, messages added: 5" in out
        assert Message.objects.filter(thread="import:thread_1").count() == 2

    def test_keeps_owners_and_takes_the_name_of_a_format(self, tmp_path: Path) -> None:
        path = tmp_path / "threads.json"
        message = {"id": "m", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "Hi"}]}}
        path.write_bytes(msgspec.json.encode({"threads": [{"id": "t", "resourceId": "eve", "messages": [message]}]}))
        run("import_history", str(path), "--keep-owner", "--format", "mastra")
        assert Thread.objects.get().resource_id == "eve"

    @pytest.mark.parametrize(
        ("name", "why"), [("ftp://host/x", "ftp: expected a file, a folder"), ("empty", "no file in it ends with")]
    )
    def test_refuses_a_place_that_holds_nothing_it_knows(self, tmp_path: Path, name: str, why: str) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(CommandError, match=why):
            run("import_history", name if "://" in name else str(tmp_path / name))


class TestImportReport:
    def test_counts_by_target_and_rule_and_stores_nothing(self, file: Path) -> None:
        out = run("import_report", str(file), "--to", "anthropic/claude-sonnet-4-5", "--to", "openai/gpt-4o")
        table = {line[:28].strip(): line.split()[-2:] for line in out.splitlines()[1:]}
        assert table["conversations"] == ["2", "2"]
        assert table["previewed without an error"] == ["2", "2"]
        assert table["with changes"] == ["1", "0"]
        assert table["anthropic-tool-id-charset"] == ["1", "0"]
        assert not Thread.objects.exists()

    def test_names_a_target_that_it_does_not_know(self, file: Path) -> None:
        with pytest.raises(CommandError, match="--to nobody/x: no provider is called 'nobody'"):
            run("import_report", str(file), "--to", "nobody/x")

    def test_names_conversations_that_can_t_be_previewed(self, file: Path) -> None:
        out = run("import_report", str(file), "--to", "other/x")
        assert "  import:t.1 for other/x: other has no address: add a connection for it" in out
