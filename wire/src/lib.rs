//! The stream between gateway and control plane, and the document forms of a policy.
