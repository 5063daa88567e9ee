"""Modules of 0.5 by the names that they had."""

from typing import Final

NEW_NAMES: Final = {
    "ampclient.admin": "ampclient.access",
    "ampclient.assertions": "ampspec.comparison.assertions",
    "ampclient.checks": "ampclient._compare.checks",
    "ampclient.comparison": "ampclient._compare.comparison",
    "ampclient.job": "ampclient._job.job",
    "ampclient.lab": "ampclient.studies",
    "ampclient.wait": "ampclient._job.wait",
}
