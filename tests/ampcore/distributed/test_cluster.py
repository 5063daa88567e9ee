"""A cluster is checked when it is made, and keeps every field as JSON."""

import json

import pytest

from ampcore.distributed.cluster import Cluster

ADDRESSES = ("10.0.0.1:2222", "[fd00::2]:2222", "gpu-3.example:2223")


def test_a_cluster_keeps_every_field_as_json():
    cluster = Cluster(ADDRESSES, 2, 1, 12.5, 7.5, 2224)
    text = json.dumps(cluster.to_json())
    assert Cluster.from_json(text) == Cluster.from_json(json.loads(text)) == cluster
    assert cluster.size == 3


def test_the_device_and_the_timeouts_have_defaults():
    cluster = Cluster.from_json({"addresses": ["localhost:1"], "rank": 0})
    assert (cluster.local_rank, cluster.timeout_s, cluster.silence_limit_s) == (0, 60.0, 60.0)


def test_heartbeats_can_have_a_limit_of_their_own():
    cluster = Cluster(ADDRESSES, 0, heartbeat_timeout_s=30.0)
    assert (cluster.timeout_s, cluster.silence_limit_s) == (60.0, 30.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"addresses": []}, r"addresses: expected 1 to 1024 addresses; received 0"),
        ({"addresses": "localhost:1"}, r"addresses: expected a list; received str"),
        ({"addresses": ["localhost"]}, r'addresses\[0\]: expected text "host:port"; received'),
        ({"addresses": ["a:1", "b:65536"]}, r"addresses\[1\]: expected text"),
        ({"addresses": ["fd00::2:1"]}, r"addresses\[0\]: expected text"),
        ({"addresses": [7]}, r"addresses\[0\]: expected text .* received 7"),
        ({"addresses": ["a:1", "a:1"]}, r"addresses\[1\]: expected another address"),
        ({"rank": 1}, r"rank: expected an integer from 0 to 0; received 1"),
        ({"rank": True}, r"rank: expected an integer"),
        ({"local_rank": -1}, r"local_rank: expected an integer from 0; received -1"),
        ({"timeout_s": 0}, r"timeout_s: expected a number of seconds above 0"),
        ({"timeout_s": "5"}, r"timeout_s: expected a number .* received '5'"),
        ({"heartbeat_timeout_s": -1}, r"heartbeat_timeout_s: expected a number of seconds above 0"),
        ({"ranks": 2}, r"ranks: expected one of addresses, .* received an unknown field"),
    ],
)
def test_a_document_with_a_wrong_field_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        Cluster.from_json({"addresses": ["localhost:1"], "rank": 0} | changed)


@pytest.mark.parametrize("document", [None, [], "[]", "{"])
def test_a_document_that_is_no_cluster_is_refused(document):
    with pytest.raises(ValueError, match=r"^cluster: expected "):
        Cluster.from_json(document)


def test_a_field_that_is_missing_is_named():
    with pytest.raises(ValueError, match=r"^rank: expected a value; received none"):
        Cluster.from_json({"addresses": ["localhost:1"]})
