"""The exact walk over the distinct blocks of a joint table; `exact` has the theory and the way in.

`table` lays the counts out, `regions` cuts the walk into parts, `region_walk` walks one, `rest` samples what
a stopped walk has left, `tree` samples the blocks to foretell a walk. Nothing is imported here: the
sampled walks share `table` and a kernel.
"""
