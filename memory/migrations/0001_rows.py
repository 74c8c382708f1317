import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Agent",
            fields=[
                ("id", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("model", models.CharField(help_text="provider/model", max_length=300)),
                ("instructions", models.TextField(blank=True, default="")),
                ("tools", models.JSONField(default=list)),
                ("settings", models.JSONField(default=dict)),
                ("input_processors", models.JSONField(default=list)),
                ("output_processors", models.JSONField(default=list)),
                ("error_processors", models.JSONField(default=list)),
                ("max_steps", models.PositiveIntegerField(default=5)),
                ("max_processor_retries", models.PositiveIntegerField(blank=True, null=True)),
                ("model_max_retries", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("prefix", models.CharField(max_length=16)),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list, help_text="of read, write, run, admin")),
                ("resource_id", models.CharField(blank=True, default="", max_length=255)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=64)),
                ("arguments", models.JSONField(default=dict)),
                (
                    "status",
                    models.CharField(default="queued", help_text="queued, running, done or failed", max_length=16),
                ),
                ("error", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Provider",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("protocol", models.CharField(max_length=64)),
                ("base_url", models.CharField(help_text="https://… or sandbox:<provider>", max_length=500)),
                (
                    "key_ref",
                    models.CharField(
                        blank=True, default="", help_text="env:NAME, file:/path, aws:… or google:", max_length=300
                    ),
                ),
                ("headers", models.JSONField(blank=True, default=dict)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("actor", models.CharField(max_length=200)),
                ("action", models.CharField(max_length=64)),
                ("target_type", models.CharField(max_length=64)),
                ("target_id", models.CharField(max_length=300)),
                ("detail", models.JSONField(default=dict)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-at", "-id"], name="audit_by_time"),
                    models.Index(fields=["target_type", "target_id"], name="audit_of_target"),
                ],
            },
        ),
        migrations.CreateModel(
            name="OperatorPreference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "theme",
                    models.CharField(
                        blank=True, default="", help_text="light, dark or empty for the system's", max_length=8
                    ),
                ),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preference",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RuleSetting",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=100)),
                ("scope", models.CharField(help_text="global, provider or agent", max_length=16)),
                ("scope_id", models.CharField(blank=True, default="", max_length=128)),
                ("state", models.CharField(max_length=8)),
                ("changed_by", models.CharField(blank=True, default="", max_length=200)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("rule", "scope", "scope_id"), name="one_switch_per_scope")
                ],
            },
        ),
        migrations.CreateModel(
            name="Thread",
            fields=[
                ("id", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("resource_id", models.CharField(max_length=255)),
                ("title", models.CharField(blank=True, default="", max_length=500)),
                ("metadata", models.JSONField(default=dict)),
                (
                    "imported",
                    models.JSONField(default=dict, help_text="where it came from: lines, system texts, tools"),
                ),
                ("message_count", models.PositiveIntegerField(default=0)),
                ("byte_count", models.PositiveBigIntegerField(default=0)),
                ("last_seq", models.PositiveIntegerField(default=0)),
                ("last_activity_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_provider", models.CharField(blank=True, default="", max_length=64)),
                ("last_model", models.CharField(blank=True, default="", max_length=200)),
                ("last_error", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="threads",
                        to="memory.agent",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("agent_name", models.CharField(max_length=200)),
                ("resource_id", models.CharField(max_length=255)),
                ("started_by", models.CharField(blank=True, default="", max_length=200)),
                ("provider", models.CharField(max_length=64)),
                ("model_id", models.CharField(max_length=200)),
                ("status", models.CharField(max_length=16)),
                ("input", models.TextField()),
                ("settings", models.TextField(default="{}")),
                ("state", models.TextField(default="{}", help_text="processor states, retry counts, steps")),
                ("rules_hash", models.CharField(blank=True, default="", max_length=64)),
                ("finish_reason", models.CharField(blank=True, default="", max_length=32)),
                ("usage", models.JSONField(default=dict)),
                ("message_ids", models.JSONField(default=list)),
                ("error_class", models.CharField(blank=True, default="", max_length=64)),
                ("error_message", models.TextField(blank=True, default="")),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("owner", models.CharField(blank=True, default="", max_length=128)),
                ("lease_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to="memory.agent",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="memory.thread",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1)),
                ("content", models.TextField()),
                ("byte_count", models.PositiveBigIntegerField(default=0)),
                ("written_by", models.CharField(blank=True, default="", max_length=200)),
                ("reason", models.TextField(blank=True, default="")),
                ("rule", models.CharField(blank=True, default="", max_length=100)),
                ("run_id", models.CharField(blank=True, default="", max_length=64)),
                ("message_id", models.CharField(help_text="unique in its thread, never global", max_length=255)),
                ("seq", models.PositiveIntegerField()),
                ("role", models.CharField(max_length=16)),
                ("type", models.CharField(default="text", max_length=64)),
                ("summary", models.JSONField(default=list, help_text="one entry a part: [type, bytes]")),
                ("provider", models.CharField(blank=True, default="", max_length=64)),
                ("protocol", models.CharField(blank=True, default="", max_length=64)),
                ("model_id", models.CharField(blank=True, default="", max_length=200)),
                ("is_open", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("saved_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="memory.thread",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MessageVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1)),
                ("content", models.TextField()),
                ("byte_count", models.PositiveBigIntegerField(default=0)),
                ("written_by", models.CharField(blank=True, default="", max_length=200)),
                ("reason", models.TextField(blank=True, default="")),
                ("rule", models.CharField(blank=True, default="", max_length=100)),
                ("run_id", models.CharField(blank=True, default="", max_length=64)),
                ("archived_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "message",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="memory.message",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("message", "version"), name="version_of_message")],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("provider", models.CharField(max_length=64)),
                ("protocol", models.CharField(max_length=64)),
                ("model_id", models.CharField(max_length=200)),
                ("url", models.CharField(max_length=600)),
                ("request_headers", models.JSONField(default=dict)),
                ("request_body", models.BinaryField(default=b"", help_text="zlib")),
                ("request_size", models.PositiveBigIntegerField(default=0)),
                ("request_sha256", models.CharField(default="", max_length=64)),
                ("changes", models.TextField(default="[]")),
                ("findings", models.TextField(default="[]")),
                ("status", models.PositiveIntegerField(null=True)),
                ("response_headers", models.JSONField(default=dict)),
                ("response_body", models.BinaryField(default=b"", help_text="zlib")),
                ("response_size", models.PositiveBigIntegerField(default=0)),
                ("provider_request_id", models.CharField(blank=True, default="", max_length=200)),
                ("error_class", models.CharField(blank=True, default="", max_length=64)),
                ("error_message", models.TextField(blank=True, default="")),
                (
                    "decision",
                    models.CharField(help_text="answered, retry, give-up, cancelled or stopped", max_length=16),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("asked_by", models.CharField(blank=True, default="", max_length=100)),
                ("matched", models.CharField(blank=True, default="", max_length=200)),
                ("delay_wanted_ms", models.FloatField(null=True)),
                ("delay_granted_ms", models.FloatField(null=True)),
                ("slept_ms", models.FloatField(null=True)),
                ("usage", models.JSONField(default=dict)),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "number"), name="attempt_number_in_run")],
            },
        ),
        migrations.CreateModel(
            name="RunEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveIntegerField()),
                ("type", models.CharField(max_length=64)),
                ("data", models.TextField(default="{}")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "seq"), name="event_seq_in_run")],
            },
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(fields=["-last_activity_at", "-id"], name="thread_by_activity"),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(fields=["resource_id", "-last_activity_at", "-id"], name="thread_by_resource"),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(fields=["last_provider", "-last_activity_at", "-id"], name="thread_by_provider"),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(fields=["agent", "-last_activity_at", "-id"], name="thread_by_agent"),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(
                condition=models.Q(("last_error", ""), _negated=True),
                fields=["-last_activity_at", "-id"],
                name="thread_with_error",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["-created_at", "-id"], name="run_by_time"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["thread", "-created_at", "-id"], name="run_of_thread"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["status", "-created_at", "-id"], name="run_by_status"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["agent", "-created_at", "-id"], name="run_by_agent"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["resource_id", "-created_at", "-id"], name="run_by_resource"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("finished_at", None)), fields=["lease_until"], name="run_lease"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(condition=models.Q(("is_open", True)), fields=["thread"], name="message_open"),
        ),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.UniqueConstraint(fields=("thread", "message_id"), name="message_id_in_thread"),
        ),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.UniqueConstraint(fields=("thread", "seq"), name="message_seq_in_thread"),
        ),
    ]
