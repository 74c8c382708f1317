"""Connections whose credentials are more than a key: what a reference stands for, and runs without the library."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from memory.errors import InvalidInput, RunFailed
from memory.models import Attempt, Provider, Run
from memory.providers import entry_for
from memory.providers.aws import AwsSigner
from memory.providers.google import GoogleSigner
from memory.sandbox import Sandbox
from memory.services import agents
from memory.services.connections import connection_for
from memory.services.keys import provider_key
from memory.services.runs import GenerateRequest, generate
from tests.make import caller
from tests.providers.sigv4 import Gate
from tests.providers.tokens import TokenEndpoint, account

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
AWS = json.dumps({"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": SECRET})
ACCOUNT = json.dumps({"type": "service_account", "private_key": SECRET}, indent=2)


class TestReferences:
    def test_stand_for_what_signs(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        account, keys = tmp_path / "account.json", tmp_path / "aws.json"
        account.write_text(ACCOUNT)
        keys.write_text(AWS)
        monkeypatch.setenv("AWS_JSON", AWS)
        assert isinstance(provider_key("google:"), GoogleSigner)
        assert isinstance(provider_key(f"file:{account}"), GoogleSigner)
        for ref in ("aws:", "aws:team", f"file:{keys}", "env:AWS_JSON"):
            assert isinstance(provider_key(ref), AwsSigner)

    def test_give_the_same_signer_again_until_the_key_file_changes(self, tmp_path: Path) -> None:
        account = tmp_path / "account.json"
        account.write_text(ACCOUNT)
        first = provider_key(f"file:{account}")
        assert provider_key(f"file:{account}") is first
        account.write_text(ACCOUNT + " ")
        assert provider_key(f"file:{account}") is first  # white space round it is no change
        account.write_text(ACCOUNT.replace(SECRET, "other"))
        assert provider_key(f"file:{account}") is not first
        assert provider_key("aws:a") is provider_key("aws:a") is not provider_key("aws:b")

    def test_to_other_json_are_refused_unseen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for text in (f'{{"key": "{SECRET}"}}', f'{{"type": "{SECRET}', '{"type": "authorized_user"}'):
            monkeypatch.setenv("SOME_JSON", text)
            with pytest.raises(InvalidInput, match="env:SOME_JSON") as caught:
                provider_key("env:SOME_JSON")
            assert SECRET not in f"{caught.value!r}" and caught.value.code == "no_provider_key"

    def test_to_a_place_at_google_are_refused(self) -> None:
        with pytest.raises(InvalidInput):
            provider_key("google:/path/to/account.json")


@pytest.mark.django_db
class TestAzure:
    """A deployment and an API version in the address; keys and access tokens."""

    BASE = "https://team.openai.azure.com/openai/deployments/{model}?api-version=2024-10-21"

    def test_deployments_are_named_by_the_model(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_KEY", "0123456789abcdef")
        base = self.BASE.replace("https://team.openai.azure.com", f"{sandbox.url}/azure")
        Provider.objects.create(id="azure", protocol="openai-chat", base_url=base, key_ref="env:AZURE_KEY")
        agent = agents.create_agent(caller(), {"id": "a", "name": "A", "model": "azure/gpt-4o"})

        generate(caller(), agent.id, GenerateRequest(messages="Hello there", thread_id="t"))

        (seen,) = sandbox.requests("azure")
        assert seen["path"].endswith("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21")
        assert "api-key" in seen["headers"] and "authorization" not in seen["headers"]
        assert Attempt.objects.get().url.endswith("/deployments/gpt-4o/chat/completions?api-version=2024-10-21")

    def test_an_access_token_of_entra_goes_as_bearer(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_TOKEN", "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2ln")
        base = f"{sandbox.url}/azure/openai/v1"
        Provider.objects.create(id="azure", protocol="openai-responses", base_url=base, key_ref="env:AZURE_TOKEN")
        agent = agents.create_agent(caller(), {"id": "a", "name": "A", "model": "azure/gpt-4o"})

        generate(caller(), agent.id, GenerateRequest(messages="Hello there", thread_id="t"))

        (seen,) = sandbox.requests("azure")
        assert "authorization" in seen["headers"] and "api-key" not in seen["headers"]

    def test_another_model_gets_another_address(self) -> None:
        Provider.objects.create(id="azure", protocol="openai-chat", base_url=self.BASE)
        found = connection_for("azure", with_key=False, model_id="a/b c")
        assert found.base_url == self.BASE.replace("{model}", "a%2Fb%20c")


@pytest.mark.django_db
class TestRuns:
    """A turn by the reference that stands in a connection."""

    def asked(self, provider: str, model: str, key_ref: str, base: str) -> Attempt:
        protocol = entry_for(provider).protocol
        Provider.objects.create(id=provider, protocol=protocol, base_url=base, key_ref=key_ref)
        agent = agents.create_agent(caller(), {"id": "a", "name": "A", "model": f"{provider}/{model}"})
        assert generate(caller(), agent.id, GenerateRequest(messages="Hello there")).text == "You said: Hello there"
        return Attempt.objects.get()

    def test_are_signed_for_bedrock(
        self,
        sandbox: Sandbox,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        debug_log: pytest.LogCaptureFixture,
    ) -> None:
        token = "FwoGZXIvYXdzEXAMPLETOKEN"
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        keys = tmp_path / "aws.json"
        keys.write_text(json.dumps({"AccessKeyId": "ASIAX", "SecretAccessKey": SECRET, "SessionToken": token}))
        gate = Gate(sandbox.url, {"ASIAX": (SECRET, token)})
        try:
            attempt = self.asked("bedrock", "amazon.nova-pro-v1:0", f"file:{keys}", gate.url)
        finally:
            gate.close()
        kept = f"{attempt.request_headers} {attempt.response_headers} {attempt.url} {debug_log.text}"
        assert SECRET not in kept and token not in kept and "AWS4-HMAC" not in kept

    def test_show_a_token_to_vertex(
        self, sandbox: Sandbox, tmp_path: Path, debug_log: pytest.LogCaptureFixture
    ) -> None:
        endpoint = TokenEndpoint()
        file = tmp_path / "account.json"
        file.write_text(account(endpoint))
        base = f"{sandbox.url}/vertex/v1/projects/p/locations/global/publishers/google"
        try:
            attempt = self.asked("vertex", "gemini-2.5-flash", f"file:{file}", base)
        finally:
            endpoint.close()
        assert endpoint.count == 1
        assert TokenEndpoint.token(1) not in f"{attempt.request_headers} {attempt.response_headers} {debug_log.text}"


def without(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let importing a library fail as if it were not installed."""
    for name in [library, *(name for name in sys.modules if name.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.django_db
class TestMissingLibraries:
    @pytest.mark.parametrize(
        ("provider", "protocol", "model", "key", "library", "extra"),
        [
            ("bedrock", "bedrock-converse", "amazon.nova-pro-v1:0", AWS, "botocore", "bedrock"),
            ("vertex", "gemini-contents", "gemini-2.5-flash", ACCOUNT, "google.auth", "vertex"),
        ],
    )
    def test_fail_the_run_with_the_command_that_helps(
        self,
        sandbox: Sandbox,
        monkeypatch: pytest.MonkeyPatch,
        provider: str,
        protocol: str,
        model: str,
        key: str,
        library: str,
        extra: str,
    ) -> None:
        monkeypatch.setenv("CLOUD_KEYS", key)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        base = f"{sandbox.url}/{provider}"
        Provider.objects.create(id=provider, protocol=protocol, base_url=base, key_ref="env:CLOUD_KEYS")
        retry = {"id": "stream-error-retry-processor", "options": {"max_retries": 3}}
        agent = agents.create_agent(
            caller(),
            {"id": "a", "name": "A", "model": f"{provider}/{model}", "error_processors": [retry]}
            | {"model_max_retries": 2},
        )
        without(library, monkeypatch)

        with pytest.raises(RunFailed, match=rf"pip install 'compat-admin\[{extra}\]'") as caught:
            generate(caller(), agent.id, GenerateRequest(messages="Hello there", thread_id="t"))

        run, attempt = Run.objects.get(), Attempt.objects.get()
        assert (run.status, run.error_class) == ("failed", "configuration")
        assert (attempt.error_class, attempt.decision, attempt.status) == ("configuration", "give-up", None)
        kept = f"{caught.value!r} {run.error_message} {attempt.error_message} {attempt.request_headers}"
        assert SECRET not in kept and f"compat-admin[{extra}]" in run.error_message
        assert sandbox.requests() == []

    @pytest.mark.parametrize("extra", ["bedrock", "vertex"])
    def test_are_named_as_the_package_does(self, extra: str) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        assert extra in project["optional-dependencies"]
        assert project["name"] == "compat-admin"
