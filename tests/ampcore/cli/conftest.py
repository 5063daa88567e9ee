"""What the tests of the commands of `python -m ampcore` share."""

import pytest


@pytest.fixture
def spec_file(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("model: {kind: mlp, hidden: [8]}\ndata: {kind: digits, batch_size: 256}\n")
    return str(file)
