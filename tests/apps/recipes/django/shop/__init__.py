from .celery import app as celery_app
