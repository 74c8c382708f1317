"""Requests to Bedrock, signed: against a server that works the signatures out by itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import memory.sandbox
from memory.errors import InvalidInput, ProviderError
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import bedrock_converse
from memory.providers.aws import AwsSigner
from memory.providers.connection import outgoing
from memory.providers.http import Client, Connection
from memory.providers.signers import Fetched
from memory.providers.wire import Encoded, Finished, Settings
from tests.providers.sigv4 import Gate

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLETOKEN/+=="
KEYS = {"AKIDLASTING": (SECRET, ""), "ASIATEMPORARY": (SECRET, TOKEN)}
LASTING = {"AccessKeyId": "AKIDLASTING", "SecretAccessKey": SECRET}
TEMPORARY = {"Version": 1, "AccessKeyId": "ASIATEMPORARY", "SecretAccessKey": SECRET, "SessionToken": TOKEN}
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROMPT = Prompt((Message("user", (Text("Grüße, 世界"),)),))


def encoded(model_id: str = MODEL) -> Encoded:
    return bedrock_converse.encode_request(PROMPT, Settings(model_id, max_tokens=100), provider="bedrock")


def given(values: dict[str, Any]) -> AwsSigner:
    return AwsSigner(read=lambda: json.dumps(values), where="file:/keys")


def never(*_: Any) -> Fetched:
    raise AssertionError("nothing is fetched for a signature")


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    sandbox = memory.sandbox.start()
    opened = Gate(sandbox.url, KEYS)
    yield opened
    opened.close()
    sandbox.stop()


@pytest.fixture
def connection(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Connection:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    gate.scopes.clear()
    return Connection("bedrock", bedrock_converse.PROTOCOL, gate.url, signer=given(LASTING))


class TestSignature:
    @pytest.mark.parametrize("keys", [LASTING, TEMPORARY], ids=["lasting", "temporary"])
    def test_is_the_one_the_server_works_out(self, gate: Gate, connection: Connection, keys: dict[str, Any]) -> None:
        with Client() as client:
            exchange = client.call(replace(connection, signer=given(keys)), encoded())
        assert exchange.status == 200, exchange.text
        assert "Grüße" in exchange.text
        assert gate.scopes == [("eu-central-1", "bedrock")]

    @pytest.mark.parametrize(
        "model_id",
        [
            "amazon.nova-pro-v1:0",
            "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1+b2 c~d",
        ],
    )
    def test_is_right_for_any_path(self, connection: Connection, model_id: str) -> None:
        with Client() as client:
            exchange = client.call(connection, encoded(model_id))
        assert exchange.status == 200, exchange.text

    def test_is_right_for_a_stream(self, connection: Connection) -> None:
        asked = bedrock_converse.as_stream(encoded(), provider="bedrock")
        with Client() as client, client.stream(connection, asked) as answer:
            assert answer.status == 200
            *_, last = bedrock_converse.decode_stream(answer, provider="bedrock")
        assert isinstance(last, Finished) and last.reply.finish_reason == "stop"

    def test_covers_the_connections_own_headers_and_a_query(self, connection: Connection) -> None:
        own = replace(connection, headers={"X-Amzn-Bedrock-GuardrailIdentifier": "g  1", "x-amz-thing": "a b"})
        with Client() as client:
            exchange = client.call(own, Encoded(f"{encoded().path}?b=2&a=%20x", encoded().body, {}))
        assert exchange.status == 200, exchange.text

    def test_with_a_wrong_secret_is_refused(self, connection: Connection) -> None:
        wrong = given({**LASTING, "SecretAccessKey": SECRET[:-1] + "x"})
        with Client() as client:
            exchange = client.call(replace(connection, signer=wrong), encoded())
        error = bedrock_converse.decode_error(exchange.status, exchange.headers, exchange.text, provider="bedrock")
        assert (error.error_class, error.is_retryable) == ("authentication", False)

    def test_of_another_body_is_refused(self, gate: Gate, connection: Connection) -> None:
        sent = outgoing(connection, encoded(), never)
        moved = Connection("bedrock", bedrock_converse.PROTOCOL, gate.url, headers=sent.headers)
        with Client() as client:
            assert client.call(moved, encoded()).status == 200
            assert client.call(moved, Encoded(encoded().path, encoded().body + b" ", {})).status == 403

    def test_is_for_the_region_and_service_of_the_host(self, gate: Gate) -> None:
        hosts = {
            "bedrock-runtime.us-west-2.amazonaws.com": ("us-west-2", "bedrock"),
            "bedrock-runtime-fips.us-gov-west-1.amazonaws.com": ("us-gov-west-1", "bedrock"),
            "vpce-1-a.bedrock-runtime.eu-west-3.vpce.amazonaws.com": ("eu-west-3", "bedrock"),
            "bedrock-mantle.ap-southeast-2.api.aws": ("ap-southeast-2", "bedrock-mantle"),
        }
        gate.scopes.clear()
        with Client(proxy=gate.url) as client:
            for host in hosts:
                target = Connection("bedrock", bedrock_converse.PROTOCOL, f"http://{host}", signer=given(LASTING))
                exchange = client.call(target, encoded())
                assert exchange.status == 200, exchange.text
        assert gate.scopes == list(hosts.values())


class TestCredentials:
    def test_come_from_the_environment(
        self, gate: Gate, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIATEMPORARY")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
        with Client() as client:
            assert client.call(replace(connection, signer=AwsSigner()), encoded()).status == 200

    def test_come_from_a_profile_with_its_region(self, gate: Gate, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("[profile team]\nregion = sa-east-1\n")
        (tmp_path / "credentials").write_text(
            f"[team]\naws_access_key_id = AKIDLASTING\naws_secret_access_key = {SECRET}\n"
        )
        target = Connection("bedrock", bedrock_converse.PROTOCOL, gate.url, signer=AwsSigner(profile="team"))
        gate.scopes.clear()
        with Client() as client:
            assert client.call(target, encoded()).status == 200
        assert gate.scopes == [("sa-east-1", "bedrock")]

    def test_that_expire_are_renewed(self, connection: Connection, tmp_path: Path) -> None:
        """A credential process whose first answer is about to expire is asked again, one that lasts is not."""
        count = tmp_path / "asked"
        process = tmp_path / "process.py"
        process.write_text(
            "import json, pathlib, sys\n"
            "from datetime import UTC, datetime, timedelta\n"
            f"count = pathlib.Path({str(count)!r})\n"
            "asked = int(count.read_text()) + 1 if count.exists() else 1\n"
            "count.write_text(str(asked))\n"
            "at = datetime.now(UTC) + timedelta(seconds=60 if asked == 1 else 36000)\n"
            f"print(json.dumps({TEMPORARY!r} | {{'Expiration': at.isoformat()}}))\n"
        )
        (tmp_path / "config").write_text(f"[profile made]\ncredential_process = {sys.executable} {process}\n")
        target = replace(connection, signer=AwsSigner(profile="made"))
        with Client() as client:
            for _ in range(4):
                assert client.call(target, encoded()).status == 200
        assert count.read_text() == "2"

    def test_in_a_file_are_read_for_each_request(self, connection: Connection, tmp_path: Path) -> None:
        file = tmp_path / "keys.json"
        target = replace(connection, signer=AwsSigner(read=file.read_text, where="file:keys"))
        with Client() as client:
            for keys in (LASTING, TEMPORARY):
                file.write_text(json.dumps(keys))
                assert client.call(target, encoded()).status == 200
            past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
            file.write_text(json.dumps({**TEMPORARY, "Expiration": past}))
            with pytest.raises(ProviderError, match="have expired") as caught:
                client.call(target, encoded())
        assert (caught.value.error_class, caught.value.is_retryable) == ("configuration", False)

    @pytest.mark.parametrize(
        ("signer", "said"),
        [
            (AwsSigner(), "no AWS credentials were found"),
            (AwsSigner(profile="nobody", where="aws:nobody"), "aws:nobody"),
            (given({"AccessKeyId": SECRET}), "missing required field `SecretAccessKey`"),
            (AwsSigner(read=lambda: SECRET, where="env:KEYS"), "env:KEYS"),
        ],
        ids=["none", "no such profile", "half", "no JSON"],
    )
    def test_that_are_missing_are_named_but_not_shown(
        self, gate: Gate, connection: Connection, signer: AwsSigner, said: str
    ) -> None:
        with Client() as client, pytest.raises(ProviderError, match=said) as caught:
            client.call(replace(connection, signer=signer), encoded())
        error = caught.value
        assert (error.error_class, error.is_retryable) == ("configuration", False)
        assert SECRET not in f"{error!r} {error}" and gate.scopes == []

    @pytest.mark.parametrize(
        "process", ["no-such-program", "echo {", "false"], ids=["no program", "no JSON", "a program that fails"]
    )
    def test_of_a_broken_process_are_named_but_not_shown(
        self, connection: Connection, tmp_path: Path, process: str
    ) -> None:
        (tmp_path / "config").write_text(f"[profile broken]\ncredential_process = {process}\n")
        signer = AwsSigner(profile="broken", where="aws:broken")
        with Client() as client, pytest.raises(ProviderError, match="aws:broken") as caught:
            client.call(replace(connection, signer=signer), encoded())
        assert (caught.value.error_class, caught.value.is_retryable) == ("configuration", False)

    def test_that_no_header_can_carry_are_refused_unseen(self, connection: Connection) -> None:
        odd = given({**TEMPORARY, "SessionToken": f"{TOKEN}\r\nx: y"})
        with Client() as client, pytest.raises(InvalidInput, match="credentials of bedrock") as caught:
            client.call(replace(connection, signer=odd), encoded())
        assert TOKEN not in f"{caught.value!r}"

    def test_take_the_place_of_a_header_of_the_connection(self, gate: Gate, connection: Connection) -> None:
        own = replace(connection, headers={"Authorization": "Bearer old", "x-amz-date": "20200101T000000Z"})
        with Client() as client:
            assert client.call(own, encoded()).status == 200

    def test_need_a_region(self, gate: Gate) -> None:
        target = Connection("bedrock", bedrock_converse.PROTOCOL, gate.url, signer=given(LASTING))
        with Client() as client, pytest.raises(ProviderError, match="set AWS_REGION") as caught:
            client.call(target, encoded())
        assert caught.value.error_class == "configuration"

    def test_are_shown_by_nothing(self, connection: Connection) -> None:
        target = replace(connection, signer=given(TEMPORARY))
        sent = outgoing(target, encoded(), never)
        assert sent.headers["x-amz-security-token"] == TOKEN
        assert (
            TOKEN not in f"{target} {sent} {sent.signed}"
            and SECRET not in msgspec.json.encode(dict(sent.headers)).decode()
        )
