"""Valuation on this machine: `fedvalue.value` for tables, streamed files and growing data."""
