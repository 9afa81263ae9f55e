"""Makes the database with one administrator, and collects the static files."""

import os

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)

from django.contrib.auth.models import User  # noqa: E402 (models need the set-up)

User.objects.create_superuser("root", "root@test.example", "opensesame")
