"""The pictures of a run: checked, encoded, and limited in number."""

import logging
from collections.abc import Callable
from typing import Any

from ampclient.tracking.entries import PendingEntry, image_entry
from ampclient.tracking.images import encode_image
from ampclient.tracking.notices import RunNotices
from ampclient.tracking.row_values import DroppedValues, UnusableValue
from ampspec.jobs.run_images import IMAGE_NAME, MAX_IMAGE_NAME, MAX_IMAGES

log = logging.getLogger(__name__)


class RunPictures:
    """Queues the pictures of a run; nothing that a program logs raises an error.

    Args:
        put: Queues an entry.
        dropped: Counts those that are left out, with the reasons.
        notices: Warns in the log of the program.
    """

    def __init__(
        self, put: Callable[[PendingEntry], object], dropped: DroppedValues, notices: RunNotices
    ) -> None:
        self._put, self._dropped, self._notices = put, dropped, notices
        self._count = 0

    def put(self, name: str, image: Any, step: int) -> None:
        """Queue a picture, or say why not."""
        try:
            if len(name) > MAX_IMAGE_NAME or not IMAGE_NAME.fullmatch(name):
                raise UnusableValue(
                    f"expected a name of at most {MAX_IMAGE_NAME} characters that matches "
                    f"{IMAGE_NAME.pattern}"
                )
            if self._count >= MAX_IMAGES:
                raise UnusableValue(f"a run has at most {MAX_IMAGES:,} pictures")
            encoded = encode_image(image)
        except UnusableValue as error:
            if self._dropped.add(name, str(error)):
                log.warning("the picture %r is left out: %s", name[:100], error)
            return
        if encoded.clipped:
            self._notices.warn(
                "values of pictures, such as %r, are outside of their range, and were clipped: "
                "floats are from 0 to 1, integers from 0 to 255",
                name,
            )
        self._count += 1
        self._put(image_entry(name, step, encoded.content))
