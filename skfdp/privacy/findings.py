"""The finding of an audit, as a report keeps it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import facts
from skfdp.privacy.events import check_fields, check_mapping


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Finding of one audit: what was claimed, and what was seen.

    An audit can refute a claim and never prove one: `passed` says that this one did
    not refute it. A report takes findings as they are told; they change none of its
    numbers.

    Attributes
    ----------
    audit : str
        Which audit: "replay", "mechanism" or "one run".
    subject : str
        What was audited.
    claimed_epsilon : float
        May be infinite.
    delta : float
        Of both epsilons.
    lower_bound : float
        Epsilon that the outputs showed to be spent; infinite where a replay saw two
        neighbours told apart for sure.
    confidence : float
        Probability, in (0, 1], with which a lower bound of this kind holds; 1 where
        nothing was estimated.
    n_trials : int
        Replays, releases, or canaries, that it rests on.
    passed : bool
        Whether the claim was not refuted.
    version : str
        Of skfdp.
    """

    audit: str
    subject: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    n_trials: int
    passed: bool
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values; infinite numbers are the string "inf"."""
        values = dataclasses.asdict(self)
        return {k: "inf" if v == math.inf else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Rebuild a finding; ValueError for fields of another type or out of range."""
        check_mapping("Finding", values)
        check_fields("Finding", cls, values)
        found = cls(
            audit=facts.text("audit", values["audit"]),
            subject=facts.text("subject", values["subject"]),
            claimed_epsilon=facts.extended(
                "claimed_epsilon", values["claimed_epsilon"]
            ),
            delta=facts.number("delta", values["delta"], "a number in (0, 1)"),
            lower_bound=facts.extended("lower_bound", values["lower_bound"]),
            confidence=facts.number("confidence", values["confidence"], "in (0, 1]"),
            n_trials=facts.count("n_trials", values["n_trials"]),
            passed=facts.flag("passed", values["passed"]),
            version=facts.text("version", values["version"]),
        )
        if not 0 < found.confidence <= 1:
            raise ValueError(f"confidence={found.confidence!r} must lie in (0, 1].")
        if not 0 < found.delta < 1:
            raise ValueError(f"delta={found.delta!r} must lie in (0, 1).")
        if found.passed and found.lower_bound > found.claimed_epsilon:
            raise ValueError(
                f"passed=True of a finding whose lower_bound={found.lower_bound!r} is "
                f"above claimed_epsilon={found.claimed_epsilon!r}: it was edited; ask "
                "for the original."
            )
        return found

    def __str__(self) -> str:
        """Return it as a sentence."""
        sure = "" if self.confidence == 1 else f" at confidence {self.confidence:.6g}"
        verdict = "did not refute" if self.passed else "REFUTED"
        return (
            f"Audit by {self.audit} of {self.subject}: {self.n_trials} trial(s) "
            f"{verdict} epsilon = {_number(self.claimed_epsilon)} at delta = "
            f"{self.delta:g}; lower bound {_number(self.lower_bound)}{sure}."
        )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"
