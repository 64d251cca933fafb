"""A drill: cheating servers and parties against each protocol, and how often they are caught.

The cheats are subclasses of the real roles' parts and live only here; no configuration of a real run reaches
them. The drill shows what the published check misses as openly as what it catches.
"""
