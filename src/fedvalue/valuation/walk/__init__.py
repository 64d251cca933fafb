"""The exact walk over the distinct blocks of an item table; `exact` has the theory and the way in.

`block_table` lays the items out, `regions` cuts the walk into parts and walks one, `block_tree`
samples the blocks and `prediction` predicts a walk from that. Nothing is imported here: kernels compile on
use.
"""
