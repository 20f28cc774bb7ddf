//! Types that files are read as, from the source: names as they are written in files, and docs.
//!
//! The source is parsed, not compiled: what serde's attributes say of names and defaults is what
//! its derive makes of them. Types are told apart by name and file, since two formats may have a
//! type of one name.
//! Invariant: a field's type that the crates define is found, in its own file before others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Token};

/// Folders whose types may stand in a file.
const SOURCES: [&str; 4] = ["input/src", "policies/src", "workloads/src", "models/src"];

/// Of these, what is read back and nobody writes by hand: journals of results.
const RESULTS: &str = "models/src/results";

/// A type by its name in Rust and its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unique {
    pub(crate) name: String,
    pub(crate) file: String,
}

impl fmt::Display for Unique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.file)
    }
}

/// A doc comment, of which lines that begin with `Values:`, `Type:` and `Default:` are apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doc {
    pub(crate) text: String,
    /// What a value may be beyond its type.
    pub(crate) values: Option<String>,
    /// What the type is called, where Rust's does not say it.
    pub(crate) of: Option<String>,
    /// What holds where nothing is written.
    pub(crate) default: Option<String>,
}

/// A field.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) doc: Doc,
    pub(crate) is: syn::Type,
    /// Whether serde has a default for it.
    pub(crate) may_be_left_out: bool,
}

/// What stands in the brackets of a variant.
pub(crate) enum Inside {
    Nothing,
    Fields(Vec<Field>),
    Values(Vec<syn::Type>),
}

/// A variant.
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) doc: Doc,
    pub(crate) inside: Inside,
    pub(crate) is_default: bool,
}

impl Variant {
    /// The types of what stands in its brackets.
    fn inside(&self) -> Vec<&syn::Type> {
        match &self.inside {
            Inside::Nothing => Vec::new(),
            Inside::Fields(fields) => fields.iter().map(|field| &field.is).collect(),
            Inside::Values(values) => values.iter().collect(),
        }
    }
}

/// What a type is made of.
pub(crate) enum Made {
    Fields(Vec<Field>),
    Variants(Vec<Variant>),
}

/// A type.
pub(crate) struct Type {
    /// Its name in files.
    pub(crate) name: String,
    pub(crate) made: Made,
}

impl Type {
    /// Whether it is one of some words, and nothing else.
    pub(crate) fn is_words(&self) -> bool {
        let Made::Variants(variants) = &self.made else { return false };
        variants.iter().all(|variant| matches!(variant.inside, Inside::Nothing))
    }

    /// The types of all that can stand in it.
    fn inside(&self) -> Vec<&syn::Type> {
        match &self.made {
            Made::Fields(fields) => fields.iter().map(|field| &field.is).collect(),
            Made::Variants(variants) => variants.iter().flat_map(Variant::inside).collect(),
        }
    }
}

/// All types that serde reads, and constants that name columns.
#[derive(Default)]
pub(crate) struct Types {
    all: BTreeMap<Unique, Type>,
    /// Texts whose doc comment is a list, by the name of the constant, with the lines of it.
    pub(crate) texts: BTreeMap<String, (String, Vec<String>)>,
}

impl Types {
    pub(crate) fn read(root: &Path) -> Result<Types, String> {
        let mut types = Types::default();
        let mut folders: Vec<_> = SOURCES.iter().map(|folder| root.join(folder)).collect();
        while let Some(folder) = folders.pop() {
            let entries =
                fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            for entry in entries {
                let path = entry.map_err(|error| error.to_string())?.path();
                if path.starts_with(root.join(RESULTS)) {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
                    let at = path.strip_prefix(root).expect("it is below").display().to_string();
                    let file = syn::parse_file(&text).map_err(|error| format!("{at}: {error}"))?;
                    types.add(&at, file.items);
                }
            }
        }
        Ok(types)
    }

    fn add(&mut self, file: &str, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Macro(called)
                    if called
                        .mac
                        .path
                        .segments
                        .last()
                        .is_some_and(|last| last.ident == "words") =>
                {
                    let inside = called.mac.parse_body::<syn::File>();
                    self.add(file, inside.map(|inside| inside.items).unwrap_or_default());
                }
                Item::Struct(item) if reads(&item.attrs) => {
                    let serde = serde(&item.attrs);
                    let all = serde.iter().any(|(word, _)| word == "default");
                    let made = Made::Fields(fields(item.fields, all));
                    let name = item.ident.to_string();
                    let written = value(&serde, "rename").unwrap_or_else(|| name.clone());
                    let unique = Unique { name, file: file.to_owned() };
                    self.all.insert(unique, Type { name: written, made });
                }
                Item::Enum(item) if reads(&item.attrs) => {
                    let serde = serde(&item.attrs);
                    let snake = value(&serde, "rename_all").is_some();
                    let made = Made::Variants(
                        item.variants.into_iter().map(|one| variant(one, snake)).collect(),
                    );
                    let name = item.ident.to_string();
                    let written = value(&serde, "rename").unwrap_or_else(|| name.clone());
                    let unique = Unique { name, file: file.to_owned() };
                    self.all.insert(unique, Type { name: written, made });
                }
                Item::Const(item) => {
                    if let Expr::Lit(one) = &*item.expr
                        && let Lit::Str(text) = &one.lit
                    {
                        let lines = doc_lines(&item.attrs);
                        if lines.iter().any(|line| line.starts_with("* ")) {
                            self.texts.insert(item.ident.to_string(), (text.value(), lines));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn get(&self, unique: &Unique) -> &Type {
        &self.all[unique]
    }

    /// The type of a mark: its name, and ` in ` a part of its file's path where that is needed.
    pub(crate) fn named(&self, mark: &str) -> Result<Unique, String> {
        let (name, file) = mark.split_once(" in ").unwrap_or((mark, ""));
        let mut fit = self.all.keys().filter(|one| one.name == name && one.file.contains(file));
        match (fit.next(), fit.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(format!("no type is called {mark}")),
            _ => Err(format!("several types are called {mark}: write ` in ` and a file")),
        }
    }

    /// The type that `name` means in a file: its own, else that of the nearest file.
    pub(crate) fn resolve(&self, name: &str, file: &str) -> Option<Unique> {
        let stem = file.trim_end_matches(".rs");
        let near =
            |other: &str| stem.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let fit = self.all.keys().filter(|one| one.name == name);
        fit.max_by_key(|one| (one.file == file, near(&one.file))).cloned()
    }

    /// A type and all that can stand in it.
    pub(crate) fn reachable(&self, from: &Unique) -> Result<BTreeSet<Unique>, String> {
        let (mut found, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(unique) = left.pop() {
            if !found.insert(unique.clone()) {
                continue;
            }
            for inside in self.get(&unique).inside() {
                let mut names = Vec::new();
                mentioned(inside, &mut names);
                left.extend(names.iter().filter_map(|name| self.resolve(name, &unique.file)));
            }
        }
        Ok(found)
    }
}

/// Every name in a type.
fn mentioned(of: &syn::Type, names: &mut Vec<String>) {
    match of {
        syn::Type::Path(path) => {
            for segment in &path.path.segments {
                names.push(segment.ident.to_string());
                if let PathArguments::AngleBracketed(list) = &segment.arguments {
                    for one in &list.args {
                        if let GenericArgument::Type(inside) = one {
                            mentioned(inside, names);
                        }
                    }
                }
            }
        }
        syn::Type::Tuple(tuple) => tuple.elems.iter().for_each(|one| mentioned(one, names)),
        _ => {}
    }
}

fn reads(attrs: &[Attribute]) -> bool {
    let derives = attrs.iter().filter(|attr| attr.path().is_ident("derive"));
    let mut lists = derives.filter_map(|attr| match &attr.meta {
        Meta::List(list) => Some(list.tokens.to_string()),
        _ => None,
    });
    lists.any(|list| list.contains("Deserialize"))
}

/// What serde's attributes say: words, and the texts that stand behind them.
fn serde(attrs: &[Attribute]) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        let list = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        for meta in list.into_iter().flatten() {
            let word = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            found.push((word, text_of(&meta)));
        }
    }
    found
}

fn value(serde: &[(String, Option<String>)], word: &str) -> Option<String> {
    serde.iter().find(|(known, _)| known == word).and_then(|(_, text)| text.clone())
}

fn text_of(meta: &Meta) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    let Expr::Lit(one) = &pair.value else { return None };
    let Lit::Str(text) = &one.lit else { return None };
    Some(text.value())
}

fn doc_lines(attrs: &[Attribute]) -> Vec<String> {
    let docs = attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    docs.filter_map(|attr| text_of(&attr.meta)).map(|line| line.trim().to_owned()).collect()
}

fn doc(attrs: &[Attribute]) -> Doc {
    let mut doc = Doc::default();
    let mut text = Vec::new();
    let mut now = &mut text;
    let (mut values, mut of, mut default) = (Vec::new(), Vec::new(), Vec::new());
    for line in doc_lines(attrs) {
        let mut rest = line.as_str();
        if let Some(behind) = line.strip_prefix("Values: ") {
            (now, rest) = (&mut values, behind);
        } else if let Some(behind) = line.strip_prefix("Type: ") {
            (now, rest) = (&mut of, behind);
        } else if let Some(behind) = line.strip_prefix("Default: ") {
            (now, rest) = (&mut default, behind);
        }
        now.push(rest.to_owned());
    }
    let said = |lines: Vec<String>| {
        let text = joined(&lines);
        let text = text.trim().trim_end_matches('.');
        (!text.is_empty()).then(|| text.to_owned())
    };
    (doc.values, doc.of, doc.default) = (said(values), said(of), said(default));
    doc.text = joined(&text);
    doc
}

/// Lines as one, without those that are empty.
fn joined(lines: &[String]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn fields(fields: Fields, all_have_defaults: bool) -> Vec<Field> {
    let one = |field: syn::Field| {
        let serde = serde(&field.attrs);
        let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let may_be_left_out = all_have_defaults || serde.iter().any(|(word, _)| word == "default");
        let name = value(&serde, "rename").unwrap_or(name);
        Field { name, doc: doc(&field.attrs), is: field.ty, may_be_left_out }
    };
    fields.into_iter().map(one).collect()
}

fn variant(one: syn::Variant, snake: bool) -> Variant {
    let serde = serde(&one.attrs);
    let own = one.ident.to_string();
    let own = if snake { snake_case(&own) } else { own };
    let name = value(&serde, "rename").unwrap_or(own);
    let inside = match one.fields {
        Fields::Unit => Inside::Nothing,
        Fields::Unnamed(values) => {
            Inside::Values(values.unnamed.into_iter().map(|value| value.ty).collect())
        }
        named => Inside::Fields(fields(named, false)),
    };
    let is_default = one.attrs.iter().any(|attr| attr.path().is_ident("default"));
    Variant { name, doc: doc(&one.attrs), inside, is_default }
}

/// As serde writes a variant in snake case.
pub(crate) fn snake_case(name: &str) -> String {
    let mut written = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 {
            written.push('_');
        }
        written.extend(letter.to_lowercase());
    }
    written
}
