//! The four roles, each of which may what those before it may, and who looks at a page.
//!
//! Separate because pages shut what a reader may not do and name the role that may. It must never
//! be what keeps anybody out: that is the server's part.

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads everything but secrets.
    Viewer,
    /// Changes limits and orders gateways about.
    Operator,
    /// Decides about changes of other people.
    Approver,
    /// People, tokens, settings.
    Admin,
}

impl Role {
    /// All, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// As it is written everywhere.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    /// What it may, in a few words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Viewer => "reads",
            Self::Operator => "reads, changes limits, orders gateways about",
            Self::Approver => "all of that, and decides about changes of others",
            Self::Admin => "everything, with people, tokens and settings",
        }
    }
}

/// Who looks at the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// As the audit names them.
    pub name: String,
    /// What they may.
    pub role: Role,
    /// They signed in and can sign out.
    pub can_leave: bool,
    /// Proves that a form comes from a page of theirs.
    pub form_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_the_one_before_it_may() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(Role::of(role.word()), Some(role));
        }
        assert_eq!(Role::of("root"), None);
    }
}
