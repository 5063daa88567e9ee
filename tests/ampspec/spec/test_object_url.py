"""URLs of objects: what is accepted, and which prefixes they are below."""

import pytest

from ampspec.references.object_url import InvalidUrl, ObjectUrl


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/birds.npz",
        "gs://my-bucket.org/a folder/birds (2).csv",
        "az://container/day=1/größe,x+y@z!.parquet",
    ],
)
def test_a_url_is_the_same_after_parsing(text):
    assert str(ObjectUrl.parse(text)) == text


REFUSED = [
    "",
    "birds.npz",
    "s3://bucket",
    "s3://bucket/",
    "s3://bucket/folder/",
    "s3://bucket//birds.npz",
    "s3://bucket/../other/birds.npz",
    "s3://bucket/./birds.npz",
    "s3://key:secret@bucket/birds.npz",
    "s3://bucket:9000/birds.npz",
    "s3://BUCKET/birds.npz",
    "S3://bucket/birds.npz",
    "s3://bucket/birds.npz?versionId=1",
    "s3://bucket/birds.npz#part",
    "s3://bucket/*.npz",
    "s3://bucket/%2e%2e/birds.npz",
    "s3://bucket/a\\b",
    "s3://bucket/a\nb",
    "s3://bucket/zip::http://10.0.0.1/birds.npz",
    "http://10.0.0.1/birds.npz",
    "https://example.org/birds.npz",
    "file:///etc/passwd",
    "simplecache::s3://bucket/birds.npz",
    f"s3://bucket/{'x' * 256}",
    f"s3://bucket/{'x/' * 600}y",
]


def is_refused(text):
    try:
        ObjectUrl.parse(text)
    except InvalidUrl:
        return True
    return False


def test_other_texts_are_refused():
    assert [text for text in REFUSED if not is_refused(text)] == []


@pytest.mark.parametrize(
    ("prefix", "url", "is_below"),
    [
        ("s3://bucket", "s3://bucket/a", True),
        ("s3://bucket/", "s3://bucket/a/b", True),
        ("s3://bucket/a", "s3://bucket/a/b", True),
        ("s3://bucket/a/", "s3://bucket/a/b/c", True),
        ("s3://bucket/a", "s3://bucket/ab", False),
        ("s3://bucket/a", "s3://bucket/a", False),
        ("s3://bucket/a/b", "s3://bucket/a/c", False),
        ("s3://bucket", "s3://bucket2/a", False),
        ("s3://bucket", "gs://bucket/a", False),
    ],
)
def test_prefixes_end_at_a_slash(prefix, url, is_below):
    assert ObjectUrl.parse(url).is_below([ObjectUrl.parse_prefix(prefix)]) is is_below
