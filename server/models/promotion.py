"""Give an alias to a version, remove it, or promote a version if assertions hold."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from ampspec.api.models import AliasRequest, PromotionRequest
from ampspec.comparison.assertions import Assertion, InvalidAssertion
from ampspec.comparison.promotion_checks import (
    Evaluated,
    PromotionCheck,
    check_promotion,
    is_promoted,
)
from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from ampspec.references.model_reference import ModelReference
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.metrics import metrics_of
from infra.storage import Storage
from server.errors import Conflict, RequestInvalid
from server.models.views import model_not_found
from server.telemetry.validation_examples import read_example_results
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.database import Database
from store.models import aliases, registered_models

POINTER: Final = "/assertions"


@dataclass(frozen=True)
class AliasKey:
    """An alias of a model of a project."""

    project: str
    name: str
    alias: str


@dataclass(frozen=True)
class CheckedPromotion:
    """The assertions of a promotion, checked against the version that had the alias then."""

    current: int | None
    assertions: tuple[str, ...]
    checks: list[PromotionCheck]

    @property
    def outcome(self) -> str:
        """The outcome as the history names it."""
        if is_promoted(self.checks):
            return "promoted"
        is_refused = any(check.outcome == "failed" for check in self.checks)
        return "refused" if is_refused else "undecided"


def parse_assertions(texts: Sequence[str], pointer: str = POINTER) -> list[Assertion]:
    """Parse assertions. Raises RequestInvalid with one problem for each that is malformed."""
    parsed, problems = [], []
    for index, text in enumerate(texts):
        try:
            parsed.append(Assertion.parse(text))
        except InvalidAssertion as error:
            expected = str(error).removeprefix("expected ").partition("; received")[0]
            location = f"{pointer}/{index}"
            problems.append(Problem(location, "invalid_value", expected, format_value(text)))
    if problems:
        raise RequestInvalid(problems)
    return parsed


def check_assertions(
    database: Database, storage: Storage, key: AliasKey, promotion_request: PromotionRequest
) -> CheckedPromotion:
    """Check the assertions of a request and of the alias's gate.

    This is done before the transaction that moves the alias, because it reads files; that
    transaction checks that nothing which was compared has changed.

    Raises:
        RequestInvalid: An assertion is malformed, or names a value that a version does not have.
        NotFound: There is no such version.
        Conflict: There is nothing to check.
    """
    asked = parse_assertions(promotion_request.assertions)
    with database.read() as session:
        rows = registered_models.page(session, key.project, name=key.name, limit=1)
        if not rows:
            raise model_not_found(ModelReference(key.name))
        model = rows[0][0]
        gate = tuple(model.gates.get(key.alias) or ())
        texts = tuple(dict.fromkeys([*gate, *(assertion.text for assertion in asked)]))
        if not texts:
            raise Conflict(
                f"Cannot promote: expected assertions, and the alias {key.alias!r} of {key.name} "
                "has no gate. Set the alias without a check instead, or add assertions."
            )
        version = _version(session, key, promotion_request.version)
        current_number = aliases.number_of(session, model, key.alias)
        current = None if current_number is None else _version(session, key, current_number)
        assertions = [Assertion.parse(text) for text in texts]
        needs_examples = current is not None and any(
            assertion.needs_base for assertion in assertions
        )
        sides = [
            None
            if row is None
            else _evaluated(session, storage, key.name, row, with_examples=needs_examples)
            for row in (version, current)
        ]
    candidate, reference = sides
    if candidate is None:  # _version raises without a row
        raise model_not_found(ModelReference(key.name, promotion_request.version))
    try:
        checks = check_promotion(assertions, candidate, reference)
    except InvalidAssertion as error:
        expected = "assertions about values that both versions have"
        problem = Problem(POINTER, "no_such_value", expected, str(error))
        raise RequestInvalid([problem]) from None
    return CheckedPromotion(current_number, texts, checks)


def promote(
    session: Session,
    key: AliasKey,
    promotion_request: PromotionRequest,
    checked: CheckedPromotion,
    actor: Actor,
) -> tables.ModelAliasChange:
    """Give the alias to the version if the checks allow it, and record them in either case.

    Raises NotFound, and Conflict if the alias or its gate has changed since they were checked.
    """
    model, current = _lock(session, key, promotion_request)
    gate = tuple(model.gates.get(key.alias) or ())
    if current != checked.current or not set(gate) <= set(checked.assertions):
        raise Conflict(
            f"The alias {key.alias!r} of {key.name}, or its gate, was changed while the versions "
            "were compared; nothing was promoted. Try again."
        )
    if checked.outcome == "promoted":
        number = promotion_request.version
        aliases.set_alias(session, model, key.alias, number, actor.token_name)
    return _record(
        session,
        model,
        key,
        actor,
        from_number=current,
        to_number=promotion_request.version,
        outcome=checked.outcome,
        reason=promotion_request.reason,
        checks=json_safe([asdict(check) for check in checked.checks]),
    )


def set_alias(
    session: Session, key: AliasKey, alias_request: AliasRequest, actor: Actor
) -> tables.ModelAliasChange:
    """Give an alias to a version.

    Raises NotFound, and Conflict if the alias has a gate, or another version than `if_version`.
    """
    model, current = _lock(session, key, alias_request)
    if model.gates.get(key.alias):
        raise Conflict(
            f"The alias {key.alias!r} of {key.name} has a gate "
            f"({'; '.join(model.gates[key.alias])}): expected a promotion, which checks it."
        )
    aliases.set_alias(session, model, key.alias, alias_request.version, actor.token_name)
    return _record(
        session,
        model,
        key,
        actor,
        from_number=current,
        to_number=alias_request.version,
        outcome="set",
        reason=alias_request.reason,
    )


def remove_alias(
    session: Session, key: AliasKey, if_version: int | None, reason: str | None, actor: Actor
) -> tables.ModelAliasChange:
    """Remove an alias. Raises NotFound, and Conflict as `set_alias` does."""
    model = registered_models.lock(session, key.project, key.name)
    current = None if model is None else aliases.number_of(session, model, key.alias)
    if model is None or current is None:
        raise model_not_found(ModelReference(key.name, alias=key.alias))
    _check_current(key, current, if_version)
    if model.gates.get(key.alias):
        raise Conflict(
            f"The alias {key.alias!r} of {key.name} has a gate: remove the gate before the alias."
        )
    aliases.remove_alias(session, model, key.alias)
    return _record(
        session,
        model,
        key,
        actor,
        from_number=current,
        to_number=None,
        outcome="removed",
        reason=reason,
    )


def _lock(
    session: Session, key: AliasKey, alias_request: AliasRequest
) -> tuple[tables.RegisteredModel, int | None]:
    """The locked model, and the version that has the alias. Raises NotFound and Conflict."""
    model = registered_models.lock(session, key.project, key.name)
    if model is None:
        raise model_not_found(ModelReference(key.name))
    _version(session, key, alias_request.version)
    current = aliases.number_of(session, model, key.alias)
    _check_current(key, current, alias_request.if_version)
    return model, current


def _check_current(key: AliasKey, current: int | None, if_version: int | None) -> None:
    if if_version is None or if_version == (current or 0):
        return
    expected = f"version {if_version}" if if_version else "no version"
    received = "no version has it" if current is None else f"version {current} has it"
    raise Conflict(
        f"The alias {key.alias!r} of {key.name} was not changed: expected {expected} to have it, "
        f"but {received}."
    )


def _version(session: Session, key: AliasKey, number: int) -> tables.ModelVersion:
    reference = ModelReference(key.name, number)
    row = registered_models.find(session, key.project, reference)
    if row is None:
        raise model_not_found(reference)
    if row.deleted_at is not None:
        raise Conflict(f"{reference} is deleted: restore it first, with undelete.")
    return row


def _evaluated(
    session: Session,
    storage: Storage,
    name: str,
    row: tables.ModelVersion,
    *,
    with_examples: bool,
) -> Evaluated:
    lineage: Mapping[str, Any] = row.lineage
    # The examples of a job are evaluated with the weights that it has chosen, not the second ones.
    has_examples = with_examples and row.job_id is not None and not lineage.get("is_best")
    return Evaluated(
        label=f"{name}:{row.number}",
        values={**(lineage.get("results") or {}), **metrics_of(row.metrics)},
        examples=read_example_results(session, row.job_id or "", storage) if has_examples else None,
        data=lineage.get("data", {}).get("source"),
    )


def _record(
    session: Session, model: tables.RegisteredModel, key: AliasKey, actor: Actor, **values: Any
) -> tables.ModelAliasChange:
    row = aliases.record_change(session, model, key.alias, created_by=actor.token_name, **values)
    audit.record(
        session,
        actor,
        "model.promote" if values.get("checks") is not None else "model.alias",
        f"{key.name}@{key.alias}",
        project=key.project,
        **{name: values[name] for name in ("from_number", "to_number", "outcome", "reason")},
    )
    return row
