//! Real KVM guests.
