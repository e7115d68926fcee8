//! The public items of a source file, a line each.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Type, UseTree, Visibility};

/// What a file exports by `pub use`: the first word of the path, and the name.
pub fn exports(file: &syn::File, crates: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in &file.items {
        if let Item::Use(item) = item
            && is_public(&item.vis)
            && let UseTree::Path(path) = &item.tree
        {
            let from = path.ident.to_string();
            let from = if crates.contains(&from.as_str()) { from } else { String::new() };
            leaves(&path.tree, &mut |name| found.push((from.clone(), name)));
        }
    }
    found
}

fn leaves(tree: &UseTree, found: &mut impl FnMut(String)) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, found),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, found)),
        UseTree::Name(name) => found(name.ident.to_string()),
        UseTree::Rename(rename) => found(rename.ident.to_string()),
        UseTree::Glob(_) => found("*".to_owned()),
    }
}

/// Lines for the public items of `names`, and for what is implemented for them.
pub fn of(file: &syn::File, names: &[String]) -> Vec<String> {
    let wanted = |name: &syn::Ident| names.iter().any(|wanted| name == wanted);
    let mut lines = Vec::new();
    for item in &file.items {
        match item {
            Item::Struct(item) if wanted(&item.ident) && is_public(&item.vis) => {
                lines.push(head(&item.attrs, "struct", &item.ident, &item.generics));
                lines.extend(fields(&item.ident.to_string(), &item.fields));
            }
            Item::Enum(item) if wanted(&item.ident) && is_public(&item.vis) => {
                lines.push(head(&item.attrs, "enum", &item.ident, &item.generics));
                let variants = item.variants.iter().map(|variant| shown(&variant.to_token_stream()));
                lines.extend(variants.map(|variant| format!("{} :: {variant}", item.ident)));
            }
            Item::Trait(item) if wanted(&item.ident) && is_public(&item.vis) => {
                lines.push(head(&item.attrs, "trait", &item.ident, &item.generics));
                lines.extend(
                    item.items
                        .iter()
                        .map(|part| match part {
                            syn::TraitItem::Fn(method) => shown(&method.sig.to_token_stream()),
                            other => shown(&other.to_token_stream()),
                        })
                        .map(|part| format!("{} :: {part}", item.ident)),
                );
            }
            Item::Type(item) if wanted(&item.ident) && is_public(&item.vis) => {
                lines.push(shown(&item.to_token_stream()));
            }
            Item::Fn(item) if wanted(&item.sig.ident) && is_public(&item.vis) => {
                lines.push(shown(&item.sig.to_token_stream()));
            }
            Item::Impl(item) if self_name(item).is_some_and(wanted) => lines.extend(implemented(item)),
            _ => {}
        }
    }
    if made_by_macros(file, names) {
        let macros = file.items.iter().filter(|item| matches!(item, Item::Macro(_)));
        lines.extend(macros.map(|item| shown(&item.to_token_stream())));
    }
    lines
}

/// Returns `true` if a macro of the file names one of `names` as a public type.
fn made_by_macros(file: &syn::File, names: &[String]) -> bool {
    file.items.iter().any(|item| {
        let Item::Macro(item) = item else { return false };
        let text = item.mac.tokens.to_string();
        names.iter().any(|name| text.contains(&format!("pub struct {name} ")))
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn self_name(item: &ItemImpl) -> Option<&syn::Ident> {
    let Type::Path(path) = &*item.self_ty else { return None };
    path.path.segments.last().map(|segment| &segment.ident)
}

/// Kind and name, with the attributes that callers depend on.
fn head(attributes: &[Attribute], kind: &str, name: &syn::Ident, generics: &syn::Generics) -> String {
    let mut line = format!("{kind} {name} {}", shown(&generics.to_token_stream()));
    for attribute in attributes {
        if attribute.path().is_ident("derive") || attribute.path().is_ident("non_exhaustive") {
            line += &format!(" {}", shown(&attribute.meta.to_token_stream()));
        }
    }
    line.replace("  ", " ").trim_end().to_owned()
}

fn fields(name: &str, fields: &Fields) -> Vec<String> {
    let public = fields.iter().filter(|field| is_public(&field.vis));
    public.map(|field| format!("{name} :: {}", shown(&field.to_token_stream()))).collect()
}

/// The trait that a type has, or its public methods, constants and macros.
fn implemented(item: &ItemImpl) -> Vec<String> {
    let name = shown(&item.self_ty.to_token_stream());
    if let Some((_, path, _)) = &item.trait_ {
        return vec![format!("impl {} for {name}", shown(&path.to_token_stream()))];
    }
    let parts = item.items.iter().filter_map(|part| match part {
        ImplItem::Fn(method) if is_public(&method.vis) => Some(method.sig.to_token_stream()),
        ImplItem::Const(constant) if is_public(&constant.vis) => Some(constant.to_token_stream()),
        ImplItem::Macro(makes) => Some(makes.to_token_stream()),
        _ => None,
    });
    parts.map(|part| format!("{name} :: {}", shown(&part))).collect()
}

/// Tokens on one line, without attributes.
fn shown(tokens: &TokenStream) -> String {
    plain(tokens.clone()).to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn plain(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#')
            && matches!(tokens.peek(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket);
        match token {
            _ if attribute => drop(tokens.next()),
            TokenTree::Group(group) => {
                kept.push(Group::new(group.delimiter(), plain(group.stream())).into());
            }
            other => kept.push(other),
        }
    }
    kept.into_iter().collect()
}
