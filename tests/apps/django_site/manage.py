"""Django's command line for the site of the tests."""

import os

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
if __name__ == "__main__":
    execute_from_command_line()
