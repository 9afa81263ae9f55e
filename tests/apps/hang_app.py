"""Never finishes loading."""

import time

time.sleep(3600)
