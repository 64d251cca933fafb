"""Messages around a protocol run: who is ready, which ids are common, whose column is whose, why it ended."""
