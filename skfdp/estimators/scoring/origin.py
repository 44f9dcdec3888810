"""The origin of a scored model: what its own report says, and who counts it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from skfdp.estimators.parameters import declared_by
from skfdp.privacy.assumptions import FIT_IN_LEDGER, Assumption, enforced
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.reporting import report

_DELTA, _RELATION = 1e-5, "replace_one"
#: Of a score whose model was declared public.
MODEL_IS_PUBLIC = Assumption(
    "The model is public, as was declared: it does not depend on the scored records.",
    enforced=False,
)
#: Of a score without the ledger of the fit, by unit; a report of both counts both.
OTHERS = {
    "record": Assumption(
        "The scored records are others than those that the model was fitted to: no "
        "ledger is shared with that fit, so that together they may cost more.",
        enforced=False,
    ),
    "person": Assumption(
        "The scored rows are of other persons than those whose rows the model was "
        "fitted to: no ledger is shared with that fit, so that together they may cost "
        "more.",
        enforced=False,
    ),
}
_AS_REPORTED = Assumption(
    "The model depends on its records through what its own report counts, and through "
    "nothing else.",
    enforced=False,
)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Origin of a model.

    Attributes
    ----------
    report : PrivacyReport or None
        None of a model that is declared public and has none.
    is_public : bool
    is_charged : bool
        Whether the ledger of the score holds the fit.
    """

    report: PrivacyReport | None
    is_public: bool
    is_charged: bool

    @classmethod
    def of(cls, model: Any, is_public: bool, ledger: PrivacyLedger | None) -> Origin:
        """Return the origin of a model, or refuse one that is not private.

        Raises
        ------
        ValueError
            If no report tells what the model depends on, and it is not declared public.
        """
        try:
            found, why = report(model), ""
        except ValueError as error:
            found, why = None, str(error)
        if found is not None and math.isinf(found.epsilon):
            why = "its fit was without privacy (epsilon=inf)"
        elif found is not None and found.leaks:
            leak = found.leaks[0]
            why = f"step {leak.step} learnt from private {leak.learns} without privacy"
        if why and not is_public:
            raise ValueError(
                f"model ({type(model).__name__}) is not the result of a private fit: "
                f"{why.rstrip('.')}; if it does not depend on the scored records, "
                "declare model_is_public=True."
            )
        charged = found is not None and holds(ledger, found)
        return cls(found, is_public, charged)

    @property
    def is_private(self) -> bool:
        """Whether the report is of a fit with privacy, and of no leak beside it."""
        found = self.report
        return found is not None and math.isfinite(found.epsilon) and not found.leaks

    @property
    def delta(self) -> float:
        """Delta of the score where none is given."""
        return _DELTA if self.report is None else self.report.delta

    @property
    def neighboring_relation(self) -> str:
        """Relation of the score where none is given."""
        found = None if self.report is None else self.report.neighboring_relation
        return found or _RELATION

    @property
    def target_name(self) -> str | None:
        """Name of the target in the model's report."""
        return None if self.report is None else self.report.target_name

    @staticmethod
    def names(model: Any) -> Any:
        """Return the parameter `names` of the model; that of a step is of its rows."""
        return None if hasattr(model, "steps") else declared_by(model, "names")

    def assumptions(self, unit: str) -> tuple[Assumption, ...]:
        """Return what the guarantee of the score takes for granted of the model.

        Parameters
        ----------
        unit : {"record", "person"}
            Of the score.
        """
        if self.is_public:
            return (MODEL_IS_PUBLIC,)
        if self.is_charged:
            return enforced(FIT_IN_LEDGER), _AS_REPORTED
        own = None if self.report is None else self.report.unit
        return (OTHERS["person" if "person" in (unit, own) else "record"],)


def holds(ledger: PrivacyLedger | None, fit: PrivacyReport) -> bool:
    """Whether a ledger was charged for a fit: it has the receipts and the events."""
    if ledger is None or not fit.events:
        return False
    try:
        ledger.check_report(fit)
    except ValueError:
        return False
    return True
