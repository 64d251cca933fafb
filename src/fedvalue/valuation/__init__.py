"""Joint counts -> values and statistics, wherever the counts came from; `engine` is the way in."""
