//! Where Swath gets its bytes.
