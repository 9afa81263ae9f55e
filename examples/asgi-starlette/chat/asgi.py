"""The entry for a server: `chat.asgi:application`."""

from chat.app import create_app

application = create_app()
