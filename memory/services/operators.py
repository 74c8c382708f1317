"""People who use the dashboard: who they are, what role they have, and links with which they set a password."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from msgspec import Struct

from memory import audit
from memory.access import Principal
from memory.errors import Conflict, FieldError, InvalidInput, NotFound
from memory.models import OperatorPreference
from memory.principal import ROLES, can_be_looked_up

MAX_LISTED = 500


class OperatorItem(Struct, frozen=True):
    """An operator of the list. Without a role it may log in and see nothing."""

    id: int
    username: str
    role: str
    is_active: bool
    has_password: bool
    last_login: Any
    date_joined: Any


def operators() -> list[OperatorItem]:
    """Everybody, active ones first, by name."""
    users = get_user_model().objects.select_related("preference").order_by("-is_active", "username")
    return [
        OperatorItem(
            id=user.pk,
            username=user.get_username(),
            role=role_of(user),
            is_active=user.is_active,
            has_password=user.has_usable_password(),
            last_login=user.last_login,
            date_joined=user.date_joined,
        )
        for user in users[:MAX_LISTED]
    ]


def role_of(user: Any) -> str:
    """The role of a Django user; one that `createsuperuser` made is an admin."""
    if user.is_superuser:
        return "admin"
    preference = getattr(user, "preference", None)
    return preference.role if preference else ""


def create_operator(caller: Principal, username: str, role: str) -> int:
    """A new operator without a password; its id. Raises InvalidInput with the field, Conflict for a taken name."""
    _check_role(role)
    user: Any = get_user_model()(username=username.strip())
    user.set_unusable_password()
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise InvalidInput("this name can't be", errors=_errors("username", error.messages)) from error
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            OperatorPreference.objects.create(user=user, role=role)
            audit.record(caller.name, "operator.created", "operator", user.username, role=role)
    except IntegrityError as error:
        raise Conflict("there is an operator of this name already", code="name_taken") from error
    return int(user.pk)


def set_role(caller: Principal, user_id: int, role: str) -> None:
    """Give an operator another role. Raises Conflict for oneself: so there is always an admin left."""
    _check_role(role)
    with transaction.atomic():
        user = _other(caller, user_id)
        before = role_of(user)
        if user.is_superuser:
            user.is_superuser = user.is_staff = False
            user.save(update_fields=["is_superuser", "is_staff"])
        OperatorPreference.objects.update_or_create(user=user, defaults={"role": role})
        audit.record(caller.name, "operator.role", "operator", user.get_username(), before=before, role=role)


def set_active(caller: Principal, user_id: int, *, is_active: bool) -> None:
    """Let an operator in, or keep it out: a session that is open ends with its next request. Raises Conflict."""
    with transaction.atomic():
        user = _other(caller, user_id)
        user.is_active = is_active
        user.save(update_fields=["is_active"])
        action = "operator.let-in" if is_active else "operator.kept-out"
        audit.record(caller.name, action, "operator", user.get_username())


def make_link(caller: Principal, user_id: int) -> tuple[str, str]:
    """The two pieces of an address with which the operator sets its password, once, within three days."""
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        raise NotFound("no such operator, or it is kept out")
    with transaction.atomic():
        audit.record(caller.name, "operator.link-made", "operator", user.get_username())
    return urlsafe_base64_encode(force_bytes(user.pk)), default_token_generator.make_token(user)


def user_of_link(uid: str, token: str) -> Any:
    """The user that a link of `make_link` was made for. Raises NotFound when it was used, is too old or not ours."""
    try:
        pk = int(urlsafe_base64_decode(uid).decode("ascii"))
    except (ValueError, OverflowError) as error:
        raise NotFound("this link is not good any more") from error
    user = get_user_model().objects.filter(pk=pk, is_active=True).first() if 0 < pk < 2**31 else None
    if user is None or not default_token_generator.check_token(user, token):
        raise NotFound("this link is not good any more")
    return user


def set_password(user: Any, password: str) -> None:
    """The operator's own new password; its sessions end. Raises InvalidInput with what is wrong with it."""
    if not can_be_looked_up(password):
        raise InvalidInput("this can't be a password", field="password")
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput("this password is too easy", errors=_errors("password", error.messages)) from error
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        audit.record(user.get_username(), "operator.password-set", "operator", user.get_username())


def _other(caller: Principal, user_id: int) -> Any:
    """The operator, who must not be the caller, inside a transaction that holds all admins."""
    users = get_user_model().objects
    admins = Q(is_superuser=True) | Q(preference__role="admin")
    # Two admins who take each other's role at once would leave none.
    held = list(users.select_for_update(of=("self",)).filter(admins, is_active=True).order_by("pk"))
    if caller.name not in {admin.get_username() for admin in held}:
        raise Conflict("you are no admin any more")
    user = users.select_related("preference").filter(pk=user_id).first()
    if user is None:
        raise NotFound("no such operator")
    if user.get_username() == caller.name:
        raise Conflict("somebody else has to change your own account")
    return user


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidInput(f"expected one of {', '.join(ROLES)}", field="role")


def _errors(field: str, messages: Sequence[str]) -> tuple[FieldError, ...]:
    return tuple(FieldError(field, message) for message in messages)
