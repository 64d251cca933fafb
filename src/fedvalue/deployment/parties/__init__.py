"""A party's process: its table, its journal, its two servers, its ledger, its result."""
