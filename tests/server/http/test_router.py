"""Each route of the API checks its query parameters."""

from fastapi.routing import APIRoute

from server.app import create_routes
from server.http.router import API_PREFIX, CheckedRoute


def test_each_route_refuses_query_parameters_that_it_does_not_have():
    """`api_router` makes such routes; a router of FastAPI alone would ignore unknown parameters."""
    routes = [route for route in create_routes() if isinstance(route, APIRoute)]
    assert len(routes) > 80
    unchecked = [route.path for route in routes if not isinstance(route, CheckedRoute)]
    documents = ("/openapi.json", "/docs", "/docs/start.js")
    # A provider sends parameters of its own.
    unrestricted = (*documents, "/sign-in/callback")
    assert unchecked == [API_PREFIX + path for path in unrestricted]
