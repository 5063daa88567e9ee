import json
import re

from ampspec.jobs import JobSpec
from server.embedded.data_folder import DataFolder
from server.embedded.stack import _ready_message


def test_the_suggested_command_submits_a_valid_spec(tmp_path):
    message = _ready_message(DataFolder(tmp_path), "http://127.0.0.1:8470", None)
    [spec] = re.findall(r"echo '(.*)' \| .*ampctl submit - --watch", message)
    assert JobSpec.parse(json.loads(spec)).model.kind == "mlp"
