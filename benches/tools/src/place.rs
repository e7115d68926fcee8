//! A directory for sockets, which nobody else may enter, and which goes with the tool; if the tool
//! is killed, with the next one.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The file in it that its owner keeps locked: a kernel lets go of the lock when the owner dies,
/// whatever number its process had, in whatever namespace.
const OWNER: &str = "owner";

/// The directory.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    _owner: File,
}

impl Place {
    /// Makes one for a purpose, once those of owners that are gone are removed.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(purpose: &str) -> Result<Self> {
        Self::within(&std::env::temp_dir(), purpose)
    }

    fn within(parent: &Path, purpose: &str) -> Result<Self> {
        let prefix = format!("srnic-{purpose}-");
        remove_abandoned(parent, &prefix);
        let process = std::process::id();
        let mut path = parent.join(format!("{prefix}{process}"));
        // Processes of two namespaces may have one number, and so may places of one process.
        let mut next = 1;
        loop {
            match Self::at(&path) {
                Ok(Some(place)) => return Ok(place),
                // Somebody took it for abandoned.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    path = parent.join(format!("{prefix}{process}-{next}"));
                    next += 1;
                }
                Err(error) => return Err(Error::file("create", &path)(error)),
            }
        }
    }

    /// Makes one of this path. `None` if it went before it had its owner.
    fn at(path: &Path) -> io::Result<Option<Self>> {
        fs::DirBuilder::new().mode(0o700).create(path)?;
        let owner = match File::create_new(path.join(OWNER)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            owner => owner?,
        };
        owner.lock()?;
        let is_there = identity(&path.join(OWNER)).ok() == Some(identity_of(&owner.metadata()?));
        Ok(is_there.then(|| Self { path: path.to_owned(), _owner: owner }))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left in it is nobody's any more.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes directories of this user's whose owner is gone. One that cannot be looked at, or has no
/// owner's file yet, stays.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        let of_user = |file: fs::Metadata| file.is_dir() && file.uid() == user;
        if is_ours
            && entry.metadata().is_ok_and(of_user)
            && let Ok(owner) = File::open(entry.path().join(OWNER))
            && owner.try_lock().is_ok()
        {
            // If it cannot be removed, it is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| identity_of(&file))
}

fn identity_of(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for places, which goes with it.
    struct Parent(PathBuf);

    impl Parent {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("srnic-place-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("made");
            Self(path)
        }

        /// A place in it, without an owner.
        fn left(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir(&path).expect("made");
            fs::write(path.join(OWNER), "").expect("made");
            path
        }

        fn place(&self) -> Place {
            Place::within(&self.0, "pool").expect("made")
        }
    }

    impl Drop for Parent {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_a_killed_owner_left_goes_and_what_lives_stays() {
        let parent = Parent::new("left");
        let left = parent.left("srnic-pool-1");
        fs::write(left.join("3.sock"), "").expect("made");
        let of_others = parent.left("srnic-lab-1");
        let being_made = parent.0.join("srnic-pool-2");
        fs::create_dir(&being_made).expect("made");
        let [one, two] = [parent.place(), parent.place()];
        assert!(!left.exists());
        assert!(being_made.exists() && of_others.exists());
        assert!(
            one.path() != two.path() && [&one, &two].iter().all(|place| place.path().join(OWNER).exists())
        );
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn a_place_of_the_same_number_is_in_nobodys_way() {
        let parent = Parent::new("number");
        let own = parent.0.join(format!("srnic-pool-{}", std::process::id()));
        fs::create_dir(&own).expect("made");
        assert_ne!(parent.place().path(), own, "it is being made");
        fs::remove_dir(&own).expect("it is empty");
        parent.left(&format!("srnic-pool-{}", std::process::id()));
        assert_eq!(parent.place().path(), own, "its owner is gone");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let nowhere = std::env::temp_dir().join("srnic-place-nowhere/at-all");
        assert!(Place::within(&nowhere, "pool").is_err());
    }
}
