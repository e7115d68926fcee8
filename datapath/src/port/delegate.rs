//! How a port that lies over another one leaves to that what it does not change.

/// Defines methods that do what those of `$to` do.
macro_rules! delegate {
    (
        to $to:expr;
        $(fn $method:ident(&$($receiver:ident)+ $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)+
    ) => {
        $(
            fn $method(&$($receiver)+ $(, $arg: $type)*) $(-> $result)? {
                $to.$method($($arg),*)
            }
        )+
    };
}
pub(super) use delegate;
