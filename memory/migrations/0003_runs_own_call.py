from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0002_rule_probes"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="fallback_models",
            field=models.JSONField(default=list, help_text="provider/model, in the order in which they are tried"),
        ),
        migrations.AddField(
            model_name="run",
            name="cancel_asked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="due_at",
            field=models.DateTimeField(help_text="it waits till then, and no call is open", null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="is_own_call",
            field=models.BooleanField(default=False, help_text="whoever started it calls the provider"),
        ),
        migrations.AddField(
            model_name="thread",
            name="active_run",
            field=models.CharField(blank=True, default="", help_text="the one run that may write to it", max_length=64),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="decision",
            field=models.CharField(help_text="open, then what was decided", max_length=16),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="finished_at",
            field=models.DateTimeField(null=True),
        ),
    ]
