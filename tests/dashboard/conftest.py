from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

PASSWORD = "a password for tests"


@pytest.fixture
def operator(db: Any) -> Any:
    return get_user_model().objects.create_superuser("operator", password=PASSWORD)


@pytest.fixture
def pages(operator: Any) -> Client:
    """A client that is logged in."""
    client = Client()
    client.force_login(operator)
    return client
