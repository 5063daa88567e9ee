"""The routes: each translates a request into a call and its result into an answer."""
