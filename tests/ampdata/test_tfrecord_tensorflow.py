"""TFRecord files that TensorFlow writes are read like TensorFlow reads them."""

import numpy as np
import pytest

from ampspec.data.file_formats import RawBytes, TfrecordOptions
from tests.ampdata.samples import noise


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_all_features_are_those_that_tensorflow_parses(tf, tmp_path, read_all, compression):
    rng = np.random.default_rng(0)
    path = tmp_path / "it.tfrecord"
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression)) as writer:
        for seed in range(20):
            features = {
                "image": bytes_feature(tf, tf.io.encode_png(noise(6, 5, seed=seed)).numpy()),
                "tensor": bytes_feature(tf, rng.normal(size=(2, 3)).astype(np.float32).tobytes()),
                "name": bytes_feature(tf, f"é{seed}".encode()),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[seed - 10])),
                "ids": tf.train.Feature(
                    int64_list=tf.train.Int64List(value=rng.integers(-(2**62), 2**62, 40))
                ),
                "floats": tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(size=7))),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())

    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "tensor": tf.io.FixedLenFeature([], tf.string),
        "name": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "ids": tf.io.FixedLenFeature([40], tf.int64),
        "floats": tf.io.FixedLenFeature([7], tf.float32),
    }
    records = tf.data.TFRecordDataset(str(path), compression)
    parsed = [tf.io.parse_single_example(record, spec) for record in records]
    expected = {
        "image": [tf.io.decode_image(one["image"]).numpy() for one in parsed],
        "tensor": [
            tf.reshape(tf.io.decode_raw(one["tensor"], tf.float32), (2, 3)).numpy()
            for one in parsed
        ],
        "name": [one["name"].numpy().decode() for one in parsed],
        **{name: [one[name].numpy() for one in parsed] for name in ("label", "ids", "floats")},
    }
    options = TfrecordOptions(raw={"tensor": RawBytes(dtype="float32", shape=(2, 3))})
    read = read_all(path, options)
    assert read.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(read[name], np.array(values, read[name].dtype))


def bytes_feature(tf, value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
