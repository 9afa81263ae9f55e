from django.db import models


class Note(models.Model):
    title = models.CharField(max_length=100)
    paper = models.FileField(upload_to="papers", blank=True)

    def __str__(self):
        return self.title
