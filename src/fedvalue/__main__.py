"""`python -m fedvalue` is the command `fedvalue`."""

from fedvalue.cli import main

if __name__ == "__main__":
    main()
