"""Which targets of MLflow are folders, without the package of MLflow."""

from ampclient.mirrors.mlflow_mirror import is_folder
from tests.tables import every_row


@every_row(
    ("uri", "expected"),
    [
        ("file:/runs", True),
        ("file:///runs", True),
        ("./mlruns", True),
        ("http://mlflow.example:5000", False),
        ("sqlite:///mlflow.db", False),
        ("postgresql://mlflow@db/mlflow", False),
    ],
)
def test_a_path_or_file_address_is_a_folder(uri: str, expected: bool) -> None:
    assert is_folder(uri) == expected
