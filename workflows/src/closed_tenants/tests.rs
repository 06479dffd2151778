//! Looks at closed tenants, with sources that answer, that do not, and that hide things from the verifier.
