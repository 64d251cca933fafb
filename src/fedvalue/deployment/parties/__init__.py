"""A party: its table, its journal, its connections to two servers, its ledger, its result."""
