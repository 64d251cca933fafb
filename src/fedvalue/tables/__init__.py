"""Raw columns of one party -> one dense integer code per sample."""
