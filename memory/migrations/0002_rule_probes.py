import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0001_rows"),
    ]

    operations = [
        migrations.CreateModel(
            name="RuleProbe",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=100)),
                ("provider", models.CharField(max_length=64)),
                ("protocol", models.CharField(max_length=64)),
                ("model_id", models.CharField(max_length=200)),
                ("outcome", models.CharField(help_text="holds, not needed, cure fails or no answer", max_length=16)),
                ("raw_status", models.PositiveIntegerField(null=True)),
                ("raw_error", models.TextField(blank=True, default="")),
                ("cured_status", models.PositiveIntegerField(null=True)),
                ("cured_error", models.TextField(blank=True, default="")),
                ("probed_by", models.CharField(blank=True, default="", max_length=200)),
                ("probed_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("rule", "provider", "model_id"), name="probe_of_rule_and_model")
                ],
            },
        ),
    ]
