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
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    path = parent.join(format!("{prefix}{process}-{next}"));
                    next += 1;
                    continue;
                }
                made => made.map_err(Error::file("create", &path))?,
            }
            // If it is gone, somebody took it for abandoned before it was locked.
            if let Some(place) = Self::own(&path)? {
                return Ok(place);
            }
        }
    }

    /// Takes a directory that was just made; `None` if it is gone. On an error it goes.
    fn own(path: &Path) -> Result<Option<Self>> {
        let name = path.join(OWNER);
        let owned = match File::create_new(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            owner => owner.and_then(|owner| Self::lock(path, owner)),
        };
        owned.map_err(|error| {
            let _ = fs::remove_dir_all(path);
            Error::file("lock", &name)(error)
        })
    }

    /// Takes a directory by the file in it, once nobody else looks at that; `None` if it is gone.
    fn lock(path: &Path, owner: File) -> io::Result<Option<Self>> {
        loop {
            match owner.lock() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                locked => break locked?,
            }
        }
        let place = is_of(&owner, path).then(|| Self { path: path.to_owned(), _owner: owner });
        Ok(place)
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
/// owner's file, stays.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_str().is_some_and(|name| is_name(name, prefix));
        let of_user = |file: fs::Metadata| file.is_dir() && file.uid() == user;
        if is_named_so
            && entry.metadata().is_ok_and(of_user)
            && let Ok(owner) = File::open(entry.path().join(OWNER))
        {
            remove_if_abandoned(&entry.path(), &owner);
        }
    }
}

/// Removes a directory if nobody has the lock of its file `owner`, as it was found there.
fn remove_if_abandoned(path: &Path, owner: &File) {
    // Meanwhile the directory may have gone, and another one of its name may be there.
    if owner.try_lock().is_ok() && is_of(owner, path) {
        // If it cannot be removed, it is in nobody's way.
        let _ = fs::remove_dir_all(path);
    }
}

/// Whether a name is the prefix with `PID` or `PID-N` behind it.
fn is_name(name: &str, prefix: &str) -> bool {
    let numbers = name.strip_prefix(prefix).map(|rest| rest.split('-'));
    numbers.is_some_and(|mut numbers| {
        let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        numbers.clone().count() <= 2 && numbers.all(is_number)
    })
}

/// Whether the file is the owner's that lies in the directory.
fn is_of(owner: &File, path: &Path) -> bool {
    let identity = |file: &fs::Metadata| (file.dev(), file.ino());
    let lies_there = fs::symlink_metadata(path.join(OWNER));
    owner.metadata().is_ok_and(|owner| lies_there.is_ok_and(|file| identity(&file) == identity(&owner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for places, which goes with it.
    struct Parent(PathBuf);

    impl Parent {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("srnic-place-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
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
    fn a_place_that_goes_before_it_is_locked_is_nobodys() {
        let parent = Parent::new("gone");
        let path = parent.0.join("srnic-pool-1");
        assert!(Place::own(&path).expect("no error").is_none(), "before it has the file");
        let path = parent.left("srnic-pool-2");
        let owner = File::open(path.join(OWNER)).expect("it is there");
        fs::remove_dir_all(&path).expect("removed");
        assert!(Place::lock(&path, owner).expect("no error").is_none(), "before it has the lock");
    }

    #[test]
    fn one_that_came_in_the_place_of_an_abandoned_one_stays() {
        let parent = Parent::new("replaced");
        let path = parent.left("srnic-pool-1");
        let found = File::open(path.join(OWNER)).expect("it is there");
        fs::remove_dir_all(&path).expect("another one was faster");
        fs::create_dir(&path).expect("made");
        let place = Place::own(&path).expect("no error").expect("it is there");
        remove_if_abandoned(&path, &found);
        assert!(place.path().join(OWNER).exists());
    }

    #[test]
    fn only_names_that_places_have_are_looked_at() {
        for name in ["srnic-pool-7", "srnic-pool-7-1"] {
            assert!(is_name(name, "srnic-pool-"), "{name}");
        }
        for name in ["srnic-pool-", "srnic-pool-x", "srnic-pool-7-", "srnic-pool-7-1-2", "srnic-lab-7"] {
            assert!(!is_name(name, "srnic-pool-"), "{name}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let nowhere = std::env::temp_dir().join("srnic-place-nowhere/at-all");
        assert!(Place::within(&nowhere, "pool").is_err());
    }
}
