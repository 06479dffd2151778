//! Onboarding, from request to service, and back from everywhere.
