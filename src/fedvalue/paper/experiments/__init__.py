"""The paper's tables and figures, one module each, behind `fedvalue reproduce`."""
