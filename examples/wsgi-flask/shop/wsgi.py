"""The entry for a server: `shop.wsgi:application`."""

from shop.app import create_app

application = create_app()
