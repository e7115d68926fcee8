//! Errors as C has them.

use core::ffi::c_int;
use verbs_api::Error;

/// A number of `errno.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    pub const INVALID: Self = Self(libc::EINVAL);
    pub const BUSY: Self = Self(libc::EBUSY);
    pub const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    pub const AGAIN: Self = Self(libc::EAGAIN);
    pub const INTERRUPTED: Self = Self(libc::EINTR);
    pub const NO_ENTRY: Self = Self(libc::ENOENT);
    /// A panic, which has said more on standard error.
    pub const PANIC: Self = Self(libc::EIO);

    /// That of the thread's last system call.
    pub fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Makes it the thread's `errno`.
    pub fn set(self) {
        // SAFETY: the location is the calling thread's own.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

pub type Result<T> = core::result::Result<T, Errno>;

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Errno {
    fn from(error: &Error) -> Self {
        use verbs_api::{CreateError, GroupError, ModifyError, PostError, RegisterError};
        Self(match error {
            Error::Post(PostError::QueueFull { .. })
            | Error::Create(CreateError::Exhausted { .. })
            | Error::Group(GroupError::Full { .. })
            | Error::Register(RegisterError::Full(_) | RegisterError::OutOfMemory { .. }) => libc::ENOMEM,
            Error::Inaccessible { .. } => libc::EFAULT,
            Error::RegionShared => libc::EBUSY,
            Error::Unsupported(_) | Error::Create(CreateError::Unsupported(_)) => libc::EOPNOTSUPP,
            Error::Forked => libc::EPERM,
            Error::LinkDown { .. } | Error::Connect(ModifyError::Unreachable(_)) => libc::ETIMEDOUT,
            Error::Create(CreateError::Address(ModifyError::Unreachable(_))) => libc::ETIMEDOUT,
            Error::Spec(_) => libc::ENODEV,
            Error::Thread { source, .. } | Error::Channel(source) | Error::Events(source) => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            _ => libc::EINVAL,
        })
    }
}

/// Tells the user why a call failed that a program seldom survives: an errno says too little.
pub fn explain<E: core::fmt::Display + Into<Errno>>(call: &str, error: E) -> Errno {
    eprintln!("srnic: {call}: {error}");
    error.into()
}
