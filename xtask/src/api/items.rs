//! The public items of a source file, a line each.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Type, UseTree, Visibility};

/// An item that a file exports or defines.
#[derive(PartialEq, Eq, Debug)]
pub struct Export {
    /// The crate that defines it, if it is another.
    pub from: Option<String>,
    /// Its name there.
    pub name: String,
    /// Its name here, if it has another.
    pub renamed: Option<String>,
}

impl Export {
    /// The line that says so, if it has another name.
    pub fn renamed(&self) -> Option<String> {
        self.renamed.as_ref().map(|name| format!("use {} as {name}", self.name))
    }
}

/// The public items that a file defines, and those that it exports by `pub use`, of its own crate
/// and of `crates`.
pub fn exports(file: &syn::File, crates: &[&str]) -> Vec<Export> {
    let mut found = Vec::new();
    for item in &file.items {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                if let UseTree::Path(path) = &item.tree {
                    let first = path.ident.to_string();
                    let from = crates.contains(&first.as_str()).then_some(first);
                    leaves(&path.tree, &mut |name, renamed| {
                        found.push(Export { from: from.clone(), name, renamed });
                    });
                }
            }
            item => found.extend(defined(item).map(|name| Export {
                from: None,
                name: name.to_string(),
                renamed: None,
            })),
        }
    }
    found
}

/// The name of a public item, of a kind that has lines.
fn defined(item: &Item) -> Option<&syn::Ident> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Const(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_public(visibility).then_some(name)
}

fn leaves(tree: &UseTree, found: &mut impl FnMut(String, Option<String>)) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, found),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, found)),
        UseTree::Name(name) => found(name.ident.to_string(), None),
        UseTree::Rename(rename) => found(rename.ident.to_string(), Some(rename.rename.to_string())),
        UseTree::Glob(_) => found("*".to_owned(), None),
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
            Item::Const(item) if wanted(&item.ident) && is_public(&item.vis) => {
                let (name, of) = (&item.ident, shown(&item.ty.to_token_stream()));
                lines.push(format!("const {name} : {of} = {}", shown(&item.expr.to_token_stream())));
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
