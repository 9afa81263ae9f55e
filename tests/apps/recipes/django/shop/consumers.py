from channels.generic.websocket import AsyncWebsocketConsumer


class Room(AsyncWebsocketConsumer):
    """Everybody hears what anybody says."""

    async def connect(self):
        await self.channel_layer.group_add("room", self.channel_name)
        await self.accept()

    async def receive(self, text_data=None, bytes_data=None):
        await self.channel_layer.group_send("room", {"type": "heard", "text": text_data})

    async def heard(self, event):
        await self.send(text_data=event["text"])
