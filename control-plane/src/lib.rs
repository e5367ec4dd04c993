//! The control plane of Bulkhead: store, versions, rollout, API and pages.
