"""Who may see what, and the record of who did what."""

import pytest
from django.db import transaction
from msgspec import structs

from memory import audit
from memory.access import agent_for, operator, require, run_for, thread_for
from memory.errors import Forbidden, NotFound
from memory.models import AuditEvent
from memory.principal import PERMISSIONS
from memory.processors.storage import HistoryStorage
from memory.store import DjangoStorage
from tests.make import caller, make_agent, make_run, make_thread


@pytest.mark.django_db
class TestFetching:
    def test_gives_what_the_caller_may_see(self) -> None:
        thread, agent = make_thread("ada"), make_agent()
        run = make_run(thread)
        for principal in (caller("ada"), caller(), operator("olga", "admin")):
            assert thread_for(principal, thread.id) == thread
            assert run_for(principal, run.id) == run
            assert agent_for(principal, agent.id) == agent

    @pytest.mark.parametrize("wanted", ["foreign", "absent", "", "a\x00", "\ud800", "x" * 999])
    def test_absent_and_foreign_look_alike(self, wanted: str) -> None:
        make_run(make_thread("bob", id="foreign"), id="foreign")
        with pytest.raises(NotFound, match=r"^no such thread$"):
            thread_for(caller("ada"), wanted)
        with pytest.raises(NotFound, match=r"^no such run$"):
            run_for(caller("ada"), wanted)
        with pytest.raises(NotFound, match=r"^no such agent$"):
            agent_for(caller("ada"), wanted)


class TestPermissions:
    def test_of_a_key_are_those_of_its_scopes(self) -> None:
        require(caller(scopes=("read",)), "read")
        for scopes in ((), ("admin",), ("write", "run"), ("root",)):
            with pytest.raises(Forbidden):
                require(caller(scopes=scopes), "read")

    @pytest.mark.parametrize(
        ("role", "granted"),
        [
            ("", set()),
            ("root", set()),
            ("viewer", {"shape"}),
            ("reader", {"shape", "read"}),
            ("operator", {"shape", "read", "write", "run", "operate"}),
            ("admin", set(PERMISSIONS)),
        ],
    )
    def test_of_an_operator_are_those_of_its_role(self, role: str, granted: set[str]) -> None:
        olga = operator("olga", role)
        assert {permission for permission in (*PERMISSIONS, "", "unheard of") if olga.may(permission)} == granted

    def test_that_nobody_named_are_granted_to_nobody(self) -> None:
        for principal in (caller(), operator("olga", "admin")):
            with pytest.raises(Forbidden):
                require(principal, "")

    def test_to_make_tokens_is_no_tokens(self) -> None:
        key = caller(scopes=("read",))
        assert key.may("token")
        assert not structs.replace(key, maker_id=2).may("token")
        assert not caller(scopes=("admin",)).may("token")


@pytest.mark.django_db(transaction=True)
class TestAudit:
    def test_stands_or_falls_with_its_transaction(self) -> None:
        with pytest.raises(transaction.TransactionManagementError):
            audit.record("Ada", "thread.deleted", "thread", "t")
        with transaction.atomic():
            audit.record("Ada", "thread.deleted", "thread", "t", deleted={"messages": 2})
        with transaction.atomic():
            audit.record("Bob", "thread.deleted", "thread", "t")
            transaction.set_rollback(True)
        event = AuditEvent.objects.get()
        assert (event.actor, event.action, event.target_type, event.target_id) == (
            "Ada",
            "thread.deleted",
            "thread",
            "t",
        )
        assert event.detail == {"deleted": {"messages": 2}}


def test_the_store_is_a_history_storage() -> None:
    storage: HistoryStorage = DjangoStorage()
    names = [name for name in vars(HistoryStorage) if not name.startswith("_")]
    assert len(names) == 5
    assert all(callable(getattr(storage, name)) for name in names)
