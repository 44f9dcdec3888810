"""scikit-learn's callbacks, which began with 1.9: before that a fit tells nobody."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Base of estimators that take no callbacks: there is no `set_callbacks`."""

        def _init_callback_context(self, **_):
            return _NobodyListens()

    class _NobodyListens:
        """The context of a fit without callbacks: no event, and no wish to stop."""

        def subcontext(self, **_):
            return self

        def call_on_fit_task_begin(self, **_):
            pass

        def call_on_fit_task_end(self, **_):
            return False

    def with_callbacks(method):
        """Return the method: there is nothing to tear down."""
        return method


__all__ = ["CallbackSupportMixin", "with_callbacks"]
