"""A page and a REST API over one model (extra `serve`): `pbos serve`, or `make_app` for a server of your own."""

from pbos.errors import MissingExtraError

try:
    import fastapi as _fastapi  # noqa: F401
except ImportError:
    raise MissingExtraError("pbos.server", "serve") from None

from pbos.server.app import Limits, make_app

__all__ = ["Limits", "make_app"]
