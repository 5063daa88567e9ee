"""Which of the forms that an answer can have a client asks for (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence


def preferred(header: str, forms: Sequence[str]) -> str:
    """The form that `Accept` names with the greatest weight; the first one where it names none."""
    weights = dict(_weight(part) for part in header.lower().split(","))

    def weight(form: str) -> float:
        names = (form, f"{form.partition('/')[0]}/*", "*/*")
        return next((weights[name] for name in names if name in weights), 0.0)

    return max(forms, key=weight)  # of equals, the first


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
