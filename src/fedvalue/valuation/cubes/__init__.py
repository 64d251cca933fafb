"""Exact values from all coalitions, 256 at a time; `cube_sum` has the theory and the entry point.

- `cube_table` lays the items out, `coalition_kernels` goes through the coalitions of most columns, and
  `cube_kernels` sums over those of the last eight at once.
- Fast for up to some 25 parties. Beyond, fewer blocks are distinct than there are coalitions: see `walk`.
"""
