//! The cells of the matrix by name.
