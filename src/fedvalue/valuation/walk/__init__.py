"""The exact walk over the distinct blocks of a joint table; `exact` has the theory and the way in.

`table` lays the counts out, `regions` cuts the walk into parts, `region_walk` walks one, `rest` samples what
a stopped walk has left, `tree` samples the blocks, and `prediction` foretells a walk from that. Nothing is
imported here: `permutations` shares `table` and a kernel.
"""
