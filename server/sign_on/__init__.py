"""Sign-on with a provider by OpenID Connect."""
