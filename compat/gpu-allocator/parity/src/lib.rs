//! Only tests; see `tests/parity`.
