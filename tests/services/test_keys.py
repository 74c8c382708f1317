"""Keys of callers and of providers, and that neither is ever shown."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.errors import InvalidInput, NotFound
from memory.models import ApiKey, AuditEvent
from memory.services.keys import make_key, principal_for, provider_key, revoke_key
from tests.make import caller
from tests.make import make_key as a_key


@pytest.mark.django_db
class TestCallersKeys:
    def test_stand_for_their_name_resource_and_scopes(self) -> None:
        row, text = make_key(caller(), "Ada's bot", scopes=["write", "read"], resource_id="ada")
        principal = principal_for(text)
        assert principal is not None
        assert (principal.name, principal.key_id, principal.resource_id) == ("Ada's bot", row.id, "ada")
        assert principal.scopes == {"read", "write"}
        assert not principal.role

    def test_are_kept_as_a_hash_and_a_prefix_only(self) -> None:
        row, text = make_key(caller(), "bot", scopes=["read"])
        assert text.startswith("ca_")
        assert len(text) == 43
        assert row.prefix == text[:8]
        kept = serializers.serialize("json", [*ApiKey.objects.all(), *AuditEvent.objects.all()])
        assert text not in kept
        assert text[8:] not in kept
        assert AuditEvent.objects.get().action == "key.made"

    @pytest.mark.parametrize("wrong", ["", "ca_", "ca_\x00", "ca_\ud800", "é" * 9999])
    def test_unknown_stand_for_nobody(self, wrong: str) -> None:
        text = a_key()
        assert principal_for(wrong) is None
        assert principal_for(text[:-1]) is None
        assert principal_for(text + " ") is None

    def test_end_when_they_expire_or_are_revoked(self) -> None:
        now = timezone.now()
        text = a_key(expires_at=now + timedelta(hours=1))
        assert principal_for(text, now=now) is not None
        assert principal_for(text, now=now + timedelta(hours=1)) is None
        key_id = ApiKey.objects.get().id
        revoke_key(caller(name="Ada"), key_id)
        assert principal_for(text, now=now) is None
        with pytest.raises(NotFound):
            revoke_key(caller(), key_id)
        assert AuditEvent.objects.filter(action="key.revoked", actor="Ada").count() == 1

    def test_note_their_use_once_a_minute(self) -> None:
        text, now = a_key(), timezone.now()
        costs = []
        for seconds in (0, 59, 60):
            with CaptureQueriesContext(connection) as captured:
                principal_for(text, now=now + timedelta(seconds=seconds))
            costs.append(len(captured))
        assert costs == [2, 1, 2]
        assert ApiKey.objects.get().last_used_at == now + timedelta(seconds=60)

    def test_that_make_no_sense_are_refused(self) -> None:
        for name, scopes, resource_id in (
            ("bot", ["root"], ""),
            ("bot", [], ""),
            ("", ["read"], ""),
            ("bot", ["read"], "a\x00"),
        ):
            with pytest.raises(InvalidInput):
                make_key(caller(), name, scopes=scopes, resource_id=resource_id)
        assert not ApiKey.objects.exists()


class TestProviderKeys:
    def test_come_from_a_variable_or_a_file(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("SOME_PROVIDER_KEY", " sk-1 ")
        file = tmp_path / "key"
        file.write_text("sk-2\n")
        assert provider_key("env:SOME_PROVIDER_KEY") == "sk-1"
        assert provider_key(f"file:{file}") == "sk-2"
        assert provider_key("") == ""

    def test_that_are_missing_name_the_reference(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("SOME_PROVIDER_KEY", "  ")
        for ref in ("env:SOME_PROVIDER_KEY", "env:NOT_SET", f"file:{tmp_path}/none", f"file:{tmp_path}", "file:\x00"):
            with pytest.raises(InvalidInput) as caught:
                provider_key(ref)
            assert ref in str(caught.value)
            assert caught.value.code == "no_provider_key"

    def test_never_show_up_in_an_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        secret = "sk-very-secret"
        monkeypatch.setenv("SOME_PROVIDER_KEY", f"{secret}\r\nX-Other: 1")
        large = tmp_path / "large"
        large.write_text(secret * 5000)
        for ref in ("env:SOME_PROVIDER_KEY", f"file:{large}", secret, f"bearer:{secret}"):
            with pytest.raises(InvalidInput) as caught:
                provider_key(ref)
            assert secret not in f"{caught.value!r} {caught.value.errors!r}"
