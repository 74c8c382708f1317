"""Django's view of the product: where its rows live, and the history triggers kept through every migration."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate, pre_migrate


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory import triggers  # models are not loadable before this point

        pre_migrate.connect(triggers.drop_before_migration, sender=self)
        post_migrate.connect(triggers.create_after_migration, sender=self)
        checks.register(triggers.check_triggers, checks.Tags.database)
