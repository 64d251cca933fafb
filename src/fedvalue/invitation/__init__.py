"""From an invitation to an agreement that everybody signed, without files sent by hand. No I/O here.

`invitation` is the document that the task party sends, `exchange` the messages that follow it, `words` the
code that people compare over the phone. Servers carry the messages (`deployment.servers.lobbies`).
"""
