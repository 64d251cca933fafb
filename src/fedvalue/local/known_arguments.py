"""A misspelled argument is answered with the right name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(**usual: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse arguments that a function of keywords does not have, with a TypeError as Python does.

    Args:
        **usual: Names that other libraries use, with ours.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = list(inspect.signature(function).parameters)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if args:
                raise TypeError(
                    f"{function.__name__} takes its arguments by name, as in {function.__name__}(label=…, "
                    "parties={…})"
                )
            for name in kwargs:
                if name not in names:
                    close = [usual[name]] if name in usual else difflib.get_close_matches(name, names, n=1)
                    hint = f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(names)}"
                    raise TypeError(f"{function.__name__} has no argument {name!r}; {hint}")
            return function(*args, **kwargs)

        return checked

    return decorate
