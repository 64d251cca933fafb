"""Use cases: what each party's data is worth, on plain tables or federated."""
