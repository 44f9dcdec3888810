"""Audits: attempts to refute what a fit claims, and never a proof of it.

What they return is computed from the records without noise: audit made-up records.
"""

from skfdp.audit.mechanism import (
    AuditResult,
    MechanismResult,
    ReleaseAudit,
    audit_mechanism,
)
from skfdp.audit.replay import Difference, Moved, ReplayResult, audit_replay

__all__ = [
    "AuditResult",
    "Difference",
    "MechanismResult",
    "Moved",
    "ReleaseAudit",
    "ReplayResult",
    "audit_mechanism",
    "audit_replay",
]
