"""`fedvalue demo`: a consortium on one machine, and an example to value."""
