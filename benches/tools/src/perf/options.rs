//! What both sides must have been told alike.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::pump::Drive;

/// Says our options, hears the peer's, and names the first that differs.
pub fn agree(engine: &impl Drive, channel: &mut Channel, ours: &[(&'static str, String)]) -> Result<()> {
    let text: Vec<String> = ours.iter().map(|(option, value)| format!("{option}={value}")).collect();
    channel.say("options", text.join(","))?;
    let theirs: String = channel.hear(engine, "options")?;
    compare(ours, &theirs)
}

fn compare(ours: &[(&'static str, String)], theirs: &str) -> Result<()> {
    let mut fields = theirs.split(',').map(|field| field.split_once('=').unwrap_or((field, "")));
    let mut ours = ours.iter().map(|(option, value)| (*option, value.as_str()));
    loop {
        return match (ours.next(), fields.next()) {
            (None, None) => Ok(()),
            (Some(ours), Some(theirs)) if ours == theirs => continue,
            (Some((option, ours)), Some((name, theirs))) if option == name => Err(Error::Mismatch {
                option: format!("--{option}"),
                ours: ours.to_owned(),
                theirs: theirs.to_owned(),
            }),
            _ => Err(Error::Unexpected { said: theirs.to_owned(), expected: "the same options" }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Vec<(&'static str, String)> {
        vec![("size", "2".into()), ("iters", "1000".into())]
    }

    #[test]
    fn equal_options_agree() {
        assert!(compare(&ours(), "size=2,iters=1000").is_ok());
    }

    #[test]
    fn the_option_that_differs_is_named() {
        let error = compare(&ours(), "size=2,iters=500").expect_err("they differ").to_string();
        assert_eq!(error, "--iters is 1000 here and 500 at the peer: give both sides the same options");
    }

    #[test]
    fn other_options_are_another_tool_s() {
        for theirs in ["size=2", "size=2,iters=1000,more=1", "length=2,iters=1000", ""] {
            assert!(matches!(compare(&ours(), theirs), Err(Error::Unexpected { .. })), "{theirs}");
        }
    }
}
