"""A web page and a REST API for one model (extra `serve`): run `pbos serve`, or pass `make_app` to your own server."""

from pbos.errors import MissingExtraError

try:
    import fastapi as _fastapi  # noqa: F401
except ImportError:
    raise MissingExtraError("pbos.server", "serve") from None

from pbos.server.app import make_app
from pbos.server.schemas import Limits

__all__ = ["Limits", "make_app"]
