"""The paper's protocols, `single` and `paper`: encrypted id sets, intersected by a server (Steps 1-4)."""
