"""Coalitional games with closed-form values: oracles for the solvers of `fedvalue.valuation`."""
