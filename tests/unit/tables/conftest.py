"""The PostgreSQL server for the tests of this folder."""

from tests.support.postgres import postgres

__all__ = ["postgres"]
