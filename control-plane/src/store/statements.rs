//! How the statements of a database are written down: constants, all of them in one table.
//!
//! Separate so that a test can prepare every one of them on the real database. A statement must
//! never be written anywhere else.

/// Constants, and a table of all of them for the test.
macro_rules! statements {
    ($($(#[$about:meta])* $name:ident = $sql:expr;)+) => {
        $($(#[$about])* pub(super) const $name: &str = $sql;)+

        /// Name and text of every statement.
        #[cfg(test)]
        pub(in crate::store) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),+];
    };
}

pub(super) use statements;
