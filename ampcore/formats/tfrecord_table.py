"""Reads TFRecord files of tf.train.Example: infers the features, and converts them to a table.

The first records decide which features there are, of which kind and with how many values; every
record must agree. Bytes are images, else text, else arrays of uint8 of one length.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ampcore.errors import InvalidData
from ampcore.formats.arrow_table import TableWriter
from ampcore.formats.cache import converted
from ampcore.formats.column_names import check_column_names
from ampcore.formats.feature_columns import FeatureColumn, feature_column
from ampcore.formats.files import DataFile
from ampcore.formats.place import Place
from ampcore.formats.source import Request, Split
from ampcore.formats.table_files import files_of_split, splits_of, table_files
from ampcore.formats.table_source import TableSource
from ampcore.formats.tf_example import Feature, Malformed, parse_example
from ampcore.formats.tfrecord import read_records
from ampcore.spec.file_formats import TfrecordOptions
from ampcore.spec.text import join_names

SAMPLE_RECORDS: Final = 256
SAMPLE_BYTES: Final = 8 * 2**20
BATCH_RECORDS: Final = 1024
BATCH_BYTES: Final = 4 * 2**20


class _Example(NamedTuple):
    file: DataFile
    number: int
    size_bytes: int
    features: dict[str, Feature]

    def place(self, feature: str) -> Place:
        return Place(self.file.name, f"record {self.number}, feature {feature}")


def is_tfrecord(name: str) -> bool:
    """Whether a file in a folder is one: `train.tfrecord-00000-of-00002`, `train00-672.tfrec`."""
    return ".tfrec" in name.lower() or "tfrecord" in name.lower()


def tfrecord_splits(request: Request, options: TfrecordOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_tfrecord))


def open_tfrecord(request: Request, options: TfrecordOptions) -> TableSource:
    """The features of a split's records. Raises InvalidData, which names a bad record."""
    files = files_of_split(request, table_files(request, is_tfrecord))
    key = (
        "tfrecord",
        request.name,
        options.missing,
        sorted((name, repr(raw)) for name, raw in options.raw.items()),
        [file.fingerprint() for file in files],
    )
    folder = converted(request.cache, key, lambda folder: _convert(folder, request, options, files))
    return TableSource(request, folder, options.image)


def _convert(
    folder: Path, request: Request, options: TfrecordOptions, files: Sequence[DataFile]
) -> None:
    examples = _examples(files, request)
    sample = _sample(examples)
    features = _features(sample, request, options)
    columns = {name: feature.stored for name, feature in features.items()}
    writer = TableWriter(folder, request.name, columns, request.limits)
    for batch in _batches(chain(sample, examples)):
        for example in batch:
            if unknown := example.features.keys() - features.keys():
                raise example.place(min(unknown)).invalid(
                    "the features of the first records", "another feature"
                )
            writer.count_rows(example.file.name, 1)
        arrays = [_array(name, feature, batch, options) for name, feature in features.items()]
        writer.write(pa.record_batch(arrays, schema=writer.schema))
    table = writer.close()
    final = {
        name: feature.finish(table.columns[name].missing) for name, feature in features.items()
    }
    replace(table, columns=final).write(folder)


def _features(
    sample: Sequence[_Example], request: Request, options: TfrecordOptions
) -> dict[str, FeatureColumn]:
    """The features of the first records, by name. Raises InvalidData."""
    first: dict[str, Feature] = {}
    for example in sample:
        first = example.features | first
    if sample and not first:
        raise InvalidData(request.name, None, expected="features with values", received="none")
    check_column_names(Place(request.name), list(first), request.limits)
    for name in options.raw:
        if sample and name not in first:
            expected = f"one of the features {join_names(sorted(first), 20)}"
            raise InvalidData(
                request.name, f"raw, {name}", expected=expected, received="no feature of this name"
            )
    return {
        name: feature_column(
            first[name],
            options.raw.get(name),
            Place(request.name, f"feature {name}"),
            request.limits.pixels,
        )
        for name in sorted(first)
    }


def _array(
    name: str, column: FeatureColumn, batch: Sequence[_Example], options: TfrecordOptions
) -> Any:
    """The values of a feature. Raises InvalidData for a bad or missing one."""
    may_miss = column.may_miss and options.missing == "keep"
    values = []
    for example in batch:
        feature = example.features.get(name)
        if feature is not None:
            values.append(column.check(feature, example.place(name)))
        elif may_miss:
            values.append(None)
        else:
            hint = ", or `missing: keep`" if column.may_miss else ""
            raise example.place(name).invalid(f"a value{hint}", "none")
    return column.to_arrow(values)


def _examples(files: Sequence[DataFile], request: Request) -> Iterator[_Example]:
    """The parsed records of all files. Raises InvalidData."""
    for file in files:
        for number, record in enumerate(read_records(file, request.limits), 1):
            try:
                features = parse_example(record)
            except Malformed as error:
                raise InvalidData(
                    file.name,
                    f"record {number}",
                    expected="a tf.train.Example",
                    received=f"other bytes: {error}",
                ) from None
            yield _Example(file, number, len(record), features)


def _sample(examples: Iterator[_Example]) -> list[_Example]:
    """The first records, which decide on the features."""
    sample, size = [], 0
    for example in islice(examples, SAMPLE_RECORDS):
        sample.append(example)
        size += example.size_bytes
        if size > SAMPLE_BYTES:
            break
    return sample


def _batches(examples: Iterable[_Example]) -> Iterator[list[_Example]]:
    """The records in lists of limited size."""
    batch, size = [], 0
    for example in examples:
        batch.append(example)
        size += example.size_bytes
        if len(batch) == BATCH_RECORDS or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
