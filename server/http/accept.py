"""Content negotiation: choose a media type by the Accept header (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence


def preferred_media_type(header: str, forms: Sequence[str]) -> str:
    """The media type with the greatest weight in `Accept`; the first one if none is named."""
    weights = dict(_weight(part) for part in header.lower().split(","))

    def weight(form: str) -> float:
        names = (form, f"{form.partition('/')[0]}/*", "*/*")
        return next((weights[name] for name in names if name in weights), 0.0)

    return max(forms, key=weight)  # the first of equal ones


def _weight(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 0.0
    return name, 1.0
