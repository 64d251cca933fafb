"""The ClientApp: starts FedValue at one SuperNode."""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedvalue_app.fedvalue_site import take_part

app = ClientApp()


@app.query()
def value(message: Message, context: Context) -> Message:
    """Take part. The site's name comes from its own node configuration; in a simulation, from its number."""
    sites = list(message.content["start"]["sites"])
    name = context.node_config.get("site") or sites[int(context.node_config["partition-id"])]
    ended = take_part(str(name))
    return Message(content=RecordDict({"ended": ConfigRecord(ended)}), reply_to=message)
