"""Event files of TensorBoard, written by its own package."""

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util


def scalar(tag, value):
    """As TensorFlow 1, PyTorch and tensorboardX write it."""
    return Summary.Value(tag=tag, simple_value=value)


def tensor(tag, value):
    """As TensorFlow 2 writes it."""
    plugin = SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary.Value(
        tag=tag, metadata=metadata, tensor=tensor_util.make_tensor_proto(np.float32(value))
    )


def write(folder, *events):
    """An event file with (step, time, value)."""
    writer = EventFileWriter(str(folder))
    for step, time_s, value in events:
        writer.add_event(Event(step=step, wall_time=time_s, summary=Summary(value=[value])))
    writer.close()
