"""A real S3 server, as for the tests of the storage."""

from tests.infra.conftest import s3_server, s3_url  # noqa: F401 - fixtures
