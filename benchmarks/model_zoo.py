r"""Models that nobody here designed, each against plain Keras: a table, and one JSON line.

For each model: losses in float32 equal those of `train_on_batch` on the same batches;
mixed_bfloat16 and mixed_float16 train and end near; the saved model loads without ampcore and
predicts as the trained one; a run that is stopped and resumed is bit-equal; what must be refused is
refused by name. Ends with status 1 if a model fails for no documented reason.

Models of keras-hub need an installation of their own:

    .venv/bin/python -m pip install --no-deps --target .venv-bench/keras-hub \
        keras-hub==0.32.0 tokenizers kagglehub kagglesdk regex huggingface_hub tqdm requests \
        filelock fsspec
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

KERAS_HUB = Path(__file__).parents[1] / ".venv-bench" / "keras-hub"


def main() -> int:
    """Check the models, and print."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if KERAS_HUB.exists():
        # Last, so that what both installations have comes from that of the project.
        sys.path.append(str(KERAS_HUB))
    from zoo.processes import run_rows
    from zoo.registry import architectures
    from zoo.row_file import RowFile
    from zoo.table import counts, line, markdown

    by_name = {architecture.name: architecture for architecture in architectures()}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models, or parts of their names")
    parser.add_argument("--list", action="store_true", help="list the models, and end")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    parser.add_argument(
        "--json-lines",
        type=Path,
        metavar="FILE",
        help="add the row of each model to this file, and do not check the models that it has",
    )
    parser.add_argument("--limit-s", type=float, default=900, help="seconds for each model")
    parser.add_argument("--limit-gb", type=float, default=14, help="memory for each model")
    arguments = parser.parse_args()
    names = set(arguments.names)
    parts = names - set(by_name)
    selection = [
        architecture
        for name, architecture in by_name.items()
        if not names or name in names or any(part in name for part in parts)
    ]
    if arguments.list or not selection:
        print("\n".join(f"{name}: {item.source}" for name, item in by_name.items()))
        return 0 if arguments.list else 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        row_file = RowFile(arguments.json_lines or Path(folder, "rows.jsonl"))
        unchecked = [item for item in selection if item.name not in row_file.rows]
        limits = {"limit_s": arguments.limit_s, "limit_bytes": int(arguments.limit_gb * 2**30)}
        for row in run_rows(unchecked, Path(folder), **limits):
            row_file.add(row)
            print(line(row, by_name[row.name]), file=sys.stderr, flush=True)
    rows = [row_file.rows[item.name] for item in selection]
    if not arguments.json:
        print("\n".join(markdown(rows, by_name)), end="\n\n")
    document = {"benchmark": "model_zoo", "seconds": round(time.monotonic() - began)}
    print(json.dumps(document | {"rows": [row.to_json() for row in rows]}))
    if not arguments.json:
        print(counts(rows))
    return int(any(row.has_failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
