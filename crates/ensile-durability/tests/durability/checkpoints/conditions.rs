//! Each condition of K1 by name.
