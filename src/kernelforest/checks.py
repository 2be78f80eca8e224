"""Words and whole numbers that users give: what makes no sense is refused, with its name, the law and the value."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any


def check_choice(name: str, value: Any, choices: Collection[str | None]) -> None:
    """Refuse a word that is not one of the choices."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")


def check_whole(name: str, value: Any, least: int, most: int | None = None, what: str = "") -> int:
    """Refuse what is no whole number between two others; `what` says what the larger one is.

    >>> check_whole("k", 3, 1, 5)
    3
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and least <= value <= (value if most is None else most):
        return int(value)
    room = f">= {least}" if most is None else f"from {least} to {most}{f', {what}' if what else ''}"
    raise ValueError(f"{name} must be an integer {room}, got {value!r}")
