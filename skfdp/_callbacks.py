"""scikit-learn callbacks (1.9 and later; ignored before)."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Replacement for scikit-learn's mixin before 1.9, without `set_callbacks`."""

        def _init_callback_context(self, **_):
            return _NoCallbacks()

    class _NoCallbacks:
        """Context of a fit without callbacks; it never stops the fit."""

        def subcontext(self, **_):
            return self

        def call_on_fit_task_begin(self, **_):
            pass

        def call_on_fit_task_end(self, **_):
            return False

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


__all__ = ["CallbackSupportMixin", "with_callbacks"]
