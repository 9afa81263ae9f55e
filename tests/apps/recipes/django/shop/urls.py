from django.http import HttpResponse
from django.urls import path

from .tasks import remember


def order(request, name):
    remember.delay(name)
    return HttpResponse(f"ordered {name}\n")


urlpatterns = [path("order/<slug:name>", order)]
