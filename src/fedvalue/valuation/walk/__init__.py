"""The exact walk over the distinct blocks of an item table; `exact` has the theory and the entry point.

- `block_table` lays the items out; `regions` cuts the walk into regions and walks one.
- `block_tree` samples the blocks, and `prediction` predicts the cost of a walk from such samples.
"""
