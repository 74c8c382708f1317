from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0006_jobs_leases"),
    ]

    operations = [
        migrations.CreateModel(
            name="Fragment",
            fields=[
                ("key", models.BinaryField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.PositiveSmallIntegerField(help_text="0 as it is, 1 zlib, 2 the names of other fragments"),
                ),
                ("data", models.BinaryField()),
                ("used_on", models.DateField()),
            ],
        ),
        migrations.AddField(
            model_name="agent",
            name="capture",
            field=models.CharField(
                default="full", help_text="of its calls' bodies: full, changes or off", max_length=8
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="changes_record",
            field=models.BinaryField(default=b"", help_text="where there are too many for a text"),
        ),
        migrations.AddField(
            model_name="attempt",
            name="findings_record",
            field=models.BinaryField(default=b""),
        ),
        migrations.AddField(
            model_name="attempt",
            name="request_record",
            field=models.BinaryField(default=b""),
        ),
        migrations.AddField(
            model_name="attempt",
            name="setup_record",
            field=models.BinaryField(default=b"", help_text="the agent and the rules that were in force"),
        ),
        migrations.AddField(
            model_name="run",
            name="removed_at",
            field=models.DateTimeField(help_text="when its bodies, details and events were removed", null=True),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("removed_at", None)), fields=["finished_at"], name="run_with_bodies"
            ),
        ),
    ]
