"""Coalitional games and their Shapley values: coalitions in, values out. Knows no entropy.

The valuation's own solvers use the structure of the CMI game and live in `valuation/`. What is here
works for any game, serves games that have no such structure, and is tested on games whose values are
known in closed form.
"""
