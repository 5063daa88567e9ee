"""Reads TFRecord files of tf.train.Example: infers the features, and converts them to a table.

The first records decide the features, their kinds and their numbers of values; all records do if a
later record has another feature. Features whose records differ are left out. Bytes are
images, else text, else arrays of uint8 of one length.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ampdata.cache import converted
from ampdata.column_names import check_column_names
from ampdata.files import DataFile
from ampdata.place import Place
from ampdata.source import LeftOut, ListedColumns, OpenRequest, Split
from ampdata.tables.arrow_table import Damage, StoredTable, TableWriter, storage_type
from ampdata.tables.table_files import files_of_split, splits_of, table_files
from ampdata.tables.table_source import TableSource
from ampdata.tfrecord.feature_columns import FeatureColumn, OtherValues, feature_column
from ampdata.tfrecord.tf_example import Feature, Malformed, parse_example
from ampdata.tfrecord.tfrecord import read_records
from ampspec.data.file_formats import TfrecordOptions
from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

SAMPLE_RECORDS: Final = 256
SAMPLE_BYTES: Final = 8 * 2**20
BATCH_RECORDS: Final = 1024
BATCH_BYTES: Final = 4 * 2**20
ONE_LENGTH: Final = "one number of values of one kind in all records"


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


def tfrecord_splits(request: OpenRequest, options: TfrecordOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_tfrecord))


def tfrecord_columns(request: OpenRequest, options: TfrecordOptions) -> ListedColumns:
    """The features, also damaged ones; the files are converted. Raises InvalidData."""
    table = StoredTable.read(_converted(request, options))
    return ListedColumns(table.columns, table.left_out)


def open_tfrecord(request: OpenRequest, options: TfrecordOptions) -> TableSource:
    """The features of a split's records. Raises InvalidData, which names a bad record."""
    return TableSource(request, _converted(request, options), options.image)


def _converted(request: OpenRequest, options: TfrecordOptions) -> Path:
    files = files_of_split(request, table_files(request, is_tfrecord))
    key = (
        "tfrecord",
        request.name,
        options.missing,
        sorted((name, repr(raw)) for name, raw in options.raw.items()),
        [file.fingerprint() for file in files],
    )
    return converted(request.cache, key, lambda folder: _convert(folder, request, options, files))


def _convert(
    folder: Path, request: OpenRequest, options: TfrecordOptions, files: Sequence[DataFile]
) -> None:
    examples = _examples(files, request)
    sample = _sample(examples)
    try:
        _TfrecordConversion(request, options, _summarize(sample)).write(
            folder, chain(sample, examples)
        )
    except _LateFeature:
        summaries = _summarize(_examples(files, request))
        _TfrecordConversion(request, options, summaries).write(folder, _examples(files, request))


class _LateFeature(Exception):
    """A record has a feature that the first records lack."""


class _Summary(NamedTuple):
    """The values of a feature in some records."""

    first: Feature
    kinds: set[str]
    lengths: set[int]

    def why_unreadable(self) -> str | None:
        """Why the values cannot be a column, judging by these records."""
        if "steps" in self.kinds:
            return "the steps of a sequence (tf.train.SequenceExample): store them in one feature"
        if len(self.kinds) > 1:
            return f"values of the kinds {join_names(sorted(self.kinds))}"
        shortest, longest = min(self.lengths), max(self.lengths)
        if shortest < longest or (longest > 1 and self.first.kind == "bytes"):
            count = longest if shortest == longest else f"{shortest} to {longest}"
            return f"{count} values of kind {self.first.kind} in a record: pad them to one number"
        return None


def _summarize(examples: Iterable[_Example]) -> dict[str, _Summary]:
    """The features by name."""
    summaries: dict[str, _Summary] = {}
    for example in examples:
        for name, feature in example.features.items():
            if (summary := summaries.get(name)) is None:
                summaries[name] = summary = _Summary(feature, set(), set())
            summary.kinds.add(feature.kind)
            summary.lengths.add(len(feature.values))
    return dict(sorted(summaries.items()))


class _TfrecordConversion:
    """Converts the features of records to a table.

    A feature of several kinds or lengths is left out. Damaged images and missing values are errors
    once the feature is used.
    """

    def __init__(
        self, request: OpenRequest, options: TfrecordOptions, summaries: Mapping[str, _Summary]
    ) -> None:
        """Raise InvalidData without features, or for invalid names."""
        self._request, self._options, self._names = request, options, summaries.keys()
        if not summaries:
            expected = "records of features with values"
            raise InvalidData(request.name, None, expected=expected, received="none")
        check_column_names(Place(request.name), list(summaries), request.limits)
        for name in options.raw:
            if name not in summaries:
                expected = f"one of the features {join_names(sorted(summaries), 20)}"
                raise InvalidData(
                    request.name,
                    f"raw, {name}",
                    expected=expected,
                    received="no feature of this name",
                )
        self._left_out = {
            name: reason
            for name, summary in summaries.items()
            if name not in options.raw and (reason := summary.why_unreadable())
        }
        self._damaged: dict[str, Damage] = {}
        self._features = {
            name: feature_column(
                summary.first,
                options.raw.get(name),
                Place(request.name, f"feature {name}"),
                request.limits.pixels,
            )
            for name, summary in summaries.items()
            if name not in self._left_out
        }
        if not self._features:
            name, reason = next(iter(self._left_out.items()))
            raise InvalidData(request.name, f"feature {name}", expected=ONE_LENGTH, received=reason)

    def write(self, folder: Path, examples: Iterable[_Example]) -> None:
        """Write the table.

        Raises:
            _LateFeature: A record has a feature without a summary.
            InvalidData: A file is damaged, or has no features.
        """
        columns = {name: feature.stored for name, feature in self._features.items()}
        writer = TableWriter(folder, self._request.name, columns, self._request.limits)
        for batch in _batches(examples):
            for example in batch:
                if example.features.keys() - self._names:
                    raise _LateFeature
                writer.count_rows(example.file.name, 1)
            arrays = [self._array(name, feature, batch) for name, feature in self._features.items()]
            writer.write(pa.record_batch(arrays, schema=writer.schema))
        table = writer.close()
        final = {}
        for name, feature in self._features.items():
            try:
                if name in self._damaged:
                    final[name] = feature.stored
                elif name not in self._left_out:
                    final[name] = feature.finish(table.columns[name].missing)
            except InvalidData as error:
                self._leave_out(name, error)
        left_out = [LeftOut(name, reason) for name, reason in self._left_out.items()]
        replace(table, columns=final, left_out=left_out, damaged=self._damaged).write(folder)

    def _array(self, name: str, column: FeatureColumn, batch: Sequence[_Example]) -> Any:
        """The values of a feature; nulls after a bad value."""
        try:
            if name not in self._left_out and name not in self._damaged:
                return column.to_arrow([self._value(name, column, example) for example in batch])
        except OtherValues as error:
            self._leave_out(name, error)
        except InvalidData as error:
            self._damaged[name] = Damage.of(error)
        return pa.nulls(len(batch), storage_type(column.stored))

    def _value(self, name: str, column: FeatureColumn, example: _Example) -> Any:
        """The value to store. Raises InvalidData for a bad or missing one."""
        feature, place = example.features.get(name), example.place(name)
        if feature is not None:
            return column.check(feature, place)
        if column.may_miss and self._options.missing == "keep":
            return None
        hint = ", or `missing: keep`" if column.may_miss else ""
        error = place.invalid(f"a value{hint}", "none")
        raise error if column.may_miss else OtherValues.of(error)

    def _leave_out(self, name: str, error: InvalidData) -> None:
        """Leave a feature out; raise the error if it was the last one."""
        self._left_out[name] = str(error).rstrip(".")
        if len(self._left_out) == len(self._names):
            raise error


def _examples(files: Sequence[DataFile], request: OpenRequest) -> Iterator[_Example]:
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
