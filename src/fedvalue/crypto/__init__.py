"""Keys, tokens and masks: bytes in, bytes out. No I/O."""
