"""Audits: what the outputs of a fit show of the privacy that it claims."""
