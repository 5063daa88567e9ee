"""TF_CONFIG, in the forms that people have reported."""

import json

import pytest

from ampcore.distributed.launchers.tf_config import cluster_of_tf_config

WORKERS = {"worker": ["a:2222", "b:2222"]}


def cluster_of(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return cluster_of_tf_config({"TF_CONFIG": text}, 30.0)


@pytest.mark.parametrize(
    ("cluster", "task", "rank", "addresses", "local_rank"),
    [
        (WORKERS, {"type": "worker", "index": 1}, 1, ("a:2222", "b:2222"), 0),
        (WORKERS, {"type": "worker", "index": "1"}, 1, ("a:2222", "b:2222"), 0),
        # TFJob of Kubeflow: the chief is the first rank.
        (
            {"worker": ["w:1"], "chief": ["c:1"]}, {"type": "worker", "index": 0}, 1,
            ("c:1", "w:1"), 0,
        ),
        ({"master": ["m:1"], "worker": ["w:1"]}, {"type": "master"}, 0, ("m:1", "w:1"), 0),
        # An object by number, as tf.train.ClusterSpec allows.
        (
            {"worker": {"1": "b:1", "0": "a:1"}}, {"type": "worker", "index": 0}, 0,
            ("a:1", "b:1"), 0,
        ),
        (
            {"worker": ["h:1", "h:2"]}, {"type": "worker", "index": 1}, 1, ("h:1", "h:2"), 1,
        ),
        # An evaluator that is listed is no rank.
        (
            {**WORKERS, "evaluator": ["e:1"]}, {"type": "worker", "index": 0}, 0,
            ("a:2222", "b:2222"), 0,
        ),
    ],
)  # fmt: skip
def test_the_tasks_that_train_are_the_ranks(cluster, task, rank, addresses, local_rank):
    found = cluster_of({"cluster": cluster, "task": task})
    assert found is not None
    assert (found.rank, found.addresses, found.local_rank) == (rank, addresses, local_rank)
    assert found.timeout_s == 30.0


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"task": {"type": "worker", "index": 0}},
        {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}},
        {"cluster": {}, "environment": "cloud"},
    ],
)
def test_one_worker_trains_alone(document):
    assert cluster_of(document) is None
    assert cluster_of_tf_config({}, 30.0) is None
    assert cluster_of("") is None


WORKER_0 = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "TF_CONFIG: expected JSON"),
        ([], "TF_CONFIG: expected an object; received list."),
        ({"cluster": WORKERS}, "TF_CONFIG.task.type"),
        ({"task": {"type": "worker", "index": 1}}, "TF_CONFIG.task.type"),
        (
            {"cluster": WORKERS, "task": {"type": "chief", "index": 0}},
            "TF_CONFIG.task.type: expected one of worker",
        ),
        (
            {"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}},
            "AMPCORE_RANKS=1 if each copy is meant to train alone; received 'evaluator'.",
        ),
        (
            {"cluster": WORKERS, "task": {"type": "worker", "index": 2}},
            "TF_CONFIG.task.index: expected an integer from 0 to 1; received 2.",
        ),
        (
            {"cluster": {**WORKERS, "ps": ["p:1"]}, "task": WORKER_0},
            "TF_CONFIG.cluster.ps: expected workers that train together",
        ),
        (
            {"sparseCluster": {"worker": {}}, "task": {"type": "chief", "index": 0}},
            "received sparseCluster",
        ),
        (
            {"cluster": {"worker": ["a", "b:1"]}, "task": WORKER_0},
            "TF_CONFIG: addresses[0]: expected text",
        ),
        (
            {"cluster": {"worker": {"0": "a:1", "2": "b:1"}}, "task": WORKER_0},
            "TF_CONFIG.cluster.worker: expected the numbers 0, 1; received 0, 2.",
        ),
        (
            {"cluster": {"worker": 2}, "task": WORKER_0},
            "TF_CONFIG.cluster.worker: expected a list of addresses; received int.",
        ),
    ],
)
def test_the_message_names_the_field(document, message):
    with pytest.raises(ValueError, match="TF_CONFIG") as caught:
        cluster_of(document)
    assert message in str(caught.value)
