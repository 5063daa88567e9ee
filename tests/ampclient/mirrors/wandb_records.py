"""Print what an offline file of W&B has, as JSON: `python wandb_records.py FILE`.

W&B has no reader in Python any more. The file is a log of LevelDB after seven bytes: blocks of
32 KiB with pieces of records, each behind a checksum, a length and a type. The records are W&B's
messages.
"""

import json
import sys
from pathlib import Path

BLOCK = 32_768
HEADER = 7
FULL, LAST = 1, 4


def records(data):
    """The bytes of each record."""
    record = b""
    offset = HEADER
    while offset + HEADER <= len(data):
        if (room := BLOCK - offset % BLOCK) < HEADER:
            offset += room
            continue
        length, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        record += data[offset + HEADER : offset + HEADER + length]
        offset += HEADER + length
        if kind in (FULL, LAST):
            yield record
            record = b""


def items(message):
    """The names and values of a history, a summary or a configuration."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in message}


def content(file):
    """The configuration, the rows, the summary and the exit code."""
    from wandb.proto import wandb_internal_pb2

    result = {"config": {}, "history": [], "summary": {}, "exit_code": None}
    for record in records(file.read_bytes()):
        message = wandb_internal_pb2.Record()
        message.ParseFromString(record)
        match message.WhichOneof("record_type"):
            case "run":
                result["name"], result["tags"] = message.run.display_name, [*message.run.tags]
                result["config"] |= items(message.run.config.update)
            case "history":
                result["history"].append(items(message.history.item))
            case "summary":
                result["summary"] |= items(message.summary.update)
            case "exit":
                result["exit_code"] = message.exit.exit_code
    return result


if __name__ == "__main__":
    print(json.dumps(content(Path(sys.argv[1]))))
