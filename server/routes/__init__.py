"""The routes: each translates a request into a call, and the result into a response."""
