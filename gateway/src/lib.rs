//! The data plane of Bulkhead.
