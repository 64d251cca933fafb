"""A drill: servers that cheat, against each protocol, to see what is caught and how often.

The cheating servers are subclasses of the real roles and live here alone; no configuration of a
real run reaches them. What the published check misses is shown as openly as what it catches.
"""
