import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0003_runs_own_call"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="maker",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tokens",
                to="memory.apikey",
            ),
        ),
        migrations.AddField(
            model_name="apikey",
            name="window",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="apikey",
            name="window_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="operatorpreference",
            name="role",
            field=models.CharField(
                blank=True, default="", help_text="viewer, reader, operator or admin", max_length=16
            ),
        ),
        migrations.CreateModel(
            name="IdempotentAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "owner",
                    models.CharField(help_text="the server key and the resource that it acts for", max_length=300),
                ),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(help_text="SHA-256 of method, path and body", max_length=64)),
                ("status", models.PositiveIntegerField(null=True)),
                ("content_type", models.CharField(blank=True, default="", max_length=100)),
                ("body", models.BinaryField(default=b"", help_text="zlib")),
                ("run_id", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("held_until", models.DateTimeField(help_text="when whoever works on it is taken for gone")),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="idempotency_by_time")],
                "constraints": [models.UniqueConstraint(fields=("owner", "key"), name="idempotency_key_of_owner")],
            },
        ),
    ]
