"""Audits, which try to refute the privacy claim of a fit; they cannot prove a claim.

Results are computed from the records without noise, so audit synthetic records.
"""

from skfdp.audit.mechanism import (
    AuditResult,
    MechanismResult,
    ReleaseAudit,
    audit_mechanism,
)
from skfdp.audit.replay import Difference, ReleaseChange, ReplayResult, audit_replay

__all__ = [
    "AuditResult",
    "Difference",
    "MechanismResult",
    "ReleaseAudit",
    "ReleaseChange",
    "ReplayResult",
    "audit_mechanism",
    "audit_replay",
]
