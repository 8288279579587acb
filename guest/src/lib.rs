//! The guest kernel as bytes.
