//! The releases of distributions that are tried, and where their packages come from.

/// A release of a distribution.
pub struct Release {
    /// As people call it.
    pub name: &'static str,
    /// As its archive calls it.
    pub suite: &'static str,
    pub archive: &'static Archive,
}

/// Where a distribution's packages are.
pub struct Archive {
    pub mirror: &'static str,
    /// The parts of it that have what we need.
    pub components: &'static str,
    /// The keys that it is signed with, and the package of Debian's that has them.
    pub keyring: (&'static str, &'static str),
}

const DEBIAN: Archive = Archive {
    mirror: "http://deb.debian.org/debian",
    components: "main",
    keyring: ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
};

const UBUNTU: Archive = Archive {
    mirror: "http://archive.ubuntu.com/ubuntu",
    components: "main,universe",
    keyring: ("/usr/share/keyrings/ubuntu-archive-keyring.gpg", "ubuntu-keyring"),
};

/// In the order of the table.
pub const RELEASES: &[Release] = &[
    Release { name: "Debian 12", suite: "bookworm", archive: &DEBIAN },
    Release { name: "Debian 13", suite: "trixie", archive: &DEBIAN },
    Release { name: "Debian testing", suite: "testing", archive: &DEBIAN },
    Release { name: "Ubuntu 24.04", suite: "noble", archive: &UBUNTU },
    Release { name: "Ubuntu 26.04", suite: "resolute", archive: &UBUNTU },
];
