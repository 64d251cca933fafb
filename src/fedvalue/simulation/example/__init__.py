"""Small tables of an invented bank and four invented data parties, for `fedvalue demo`."""
