from django.contrib import admin
from django.urls import path


def broken(request):
    raise RuntimeError("broken on purpose")


urlpatterns = [path("admin/", admin.site.urls), path("broken", broken)]
