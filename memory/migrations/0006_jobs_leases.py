import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_rule_use"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobFile",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="file",
                        serialize=False,
                        to="memory.job",
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("content", models.BinaryField(help_text="zlib")),
            ],
        ),
        migrations.AddField(
            model_name="job",
            name="attempt_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="job",
            name="cancel_asked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="done_count",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="job",
            name="due_at",
            field=models.DateTimeField(default=django.utils.timezone.now, help_text="not to be taken before"),
        ),
        migrations.AddField(
            model_name="job",
            name="lease_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="made_by",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="job",
            name="note",
            field=models.CharField(blank=True, default="", max_length=300),
        ),
        migrations.AddField(
            model_name="job",
            name="owner",
            field=models.CharField(blank=True, default="", max_length=160),
        ),
        migrations.AddField(
            model_name="job",
            name="queue",
            field=models.CharField(default="runs", max_length=32),
        ),
        migrations.AddField(
            model_name="job",
            name="resource_id",
            field=models.CharField(blank=True, default="", help_text="empty: any", max_length=255),
        ),
        migrations.AddField(
            model_name="job",
            name="result",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="job",
            name="state",
            field=models.JSONField(default=dict, help_text="where another attempt goes on"),
        ),
        migrations.AddField(
            model_name="job",
            name="title",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="job",
            name="total_count",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="traceback",
            field=models.TextField(blank=True, default="", help_text="of the last failure, keys hidden"),
        ),
        migrations.AddField(
            model_name="job",
            name="woken_at",
            field=models.DateTimeField(help_text="when somebody was last called for it", null=True),
        ),
        migrations.AlterField(
            model_name="job",
            name="status",
            field=models.CharField(
                default="queued", help_text="queued, running, done, failed or cancelled", max_length=16
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["-created_at", "-id"], name="job_by_time"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["status", "-created_at", "-id"], name="job_by_status"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(condition=models.Q(("finished_at", None)), fields=["status", "due_at"], name="job_due"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("error_class", ""), _negated=True),
                fields=["error_class", "-created_at", "-id"],
                name="run_by_error",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("attempt_count__gt", 1)), fields=["-created_at", "-id"], name="run_with_retries"
            ),
        ),
    ]
