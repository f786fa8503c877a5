//! Tools of the Responses API, and the names under which an upstream knows them.

use std::borrow::Cow;

use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::names::digest;

/// The longest name of a tool that every dialect takes.
const MAX_NAME: usize = 64;

/// A tool that the caller runs.
#[derive(Debug)]
pub(crate) struct Tool<'a> {
    /// The name under which an upstream knows it.
    pub(crate) name: Cow<'a, str>,
    /// What it does.
    pub(crate) description: Option<Raw<'a>>,
    /// Of a function: the JSON schema of its arguments.
    pub(crate) parameters: Option<Raw<'a>>,
    /// Of a function: whether the schema is kept to exactly, where it says.
    pub(crate) strict: Option<bool>,
    /// Of a tool of free text: the grammar of its input, where it says (`{"type":"grammar",…}`, `{"type":"text"}`).
    pub(crate) format: Option<Raw<'a>>,
    /// Its input is free text.
    pub(crate) custom: bool,
    /// Where it stands.
    pub(crate) path: String,
    /// All else.
    pub(crate) rest: Fields<'a>,
}

/// Which tools may or must be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// None.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
    /// This one.
    Tool {
        /// The name under which an upstream knows it.
        name: Cow<'a, str>,
        /// Its input is free text.
        custom: bool,
    },
    /// As the model likes, or at least one, of these.
    Allowed {
        /// At least one.
        required: bool,
        /// The names under which an upstream knows them.
        names: Vec<Cow<'a, str>>,
    },
}

/// A tool under the name by which an upstream knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// That name.
    pub(crate) flat: String,
    /// The space in which the caller put it.
    pub(crate) namespace: Option<String>,
    /// The caller's name for it.
    pub(crate) name: String,
    /// Its input is free text.
    pub(crate) custom: bool,
}

/// Tools by name. Other dialects know no namespaces: a tool in one goes by a name made of both. Two tools never share a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(Vec<Named>);

impl Names {
    /// All that an upstream may call.
    pub(crate) fn all(&self) -> &[Named] {
        &self.0
    }

    /// The tool that an upstream calls so.
    pub(crate) fn find(&self, flat: &str) -> Option<&Named> {
        self.0.iter().find(|named| named.flat == flat)
    }

    fn of(&self, namespace: Option<&str>, name: &str) -> Option<&Named> {
        let same = |named: &&Named| named.name == name;
        let exact = |named: &&Named| same(named) && named.namespace.as_deref() == namespace;
        self.0.iter().find(exact).or_else(|| {
            // The space is optional where the name alone says which.
            let mut others = self.0.iter().filter(same);
            let only = others.next()?;
            (namespace.is_none() && others.next().is_none()).then_some(only)
        })
    }

    fn add(&mut self, namespace: Option<&str>, name: &str, custom: bool) -> String {
        let flat = match namespace {
            None => name.to_owned(),
            Some(space) => self.free(space, name),
        };
        self.0.push(Named {
            flat: flat.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            custom,
        });
        flat
    }

    /// A name of both that is not too long and not taken.
    fn free(&self, space: &str, name: &str) -> String {
        let both = format!("{}__{name}", space.trim_end_matches('_'));
        let mut flat = both.clone();
        let mut salt = 0;
        while flat.len() > MAX_NAME || self.find(&flat).is_some() {
            let mark = format!("_{:08x}", digest(&both, salt) >> 32);
            let mut end = both.len().min(MAX_NAME - mark.len());
            while !both.is_char_boundary(end) {
                end -= 1;
            }
            flat = format!("{}{mark}", both.get(..end).unwrap_or(""));
            salt += 1;
        }
        flat
    }

    /// The name of a tool that was called.
    pub(super) fn of_call<'a>(
        &mut self,
        namespace: Option<&str>,
        name: Cow<'a, str>,
        custom: bool,
    ) -> Cow<'a, str> {
        match (self.of(namespace, &name), namespace) {
            (Some(named), _) if named.flat == name => name,
            (Some(named), _) => Cow::Owned(named.flat.clone()),
            (None, None) => name,
            (None, Some(_)) => Cow::Owned(self.add(namespace, &name, custom)),
        }
    }
}

/// Tools that the caller runs, and the paths of those that the provider would.
type Tools<'a> = (Vec<Tool<'a>>, Vec<String>);

impl<'a> Tool<'a> {
    pub(super) fn read_all(
        raws: Vec<Raw<'a>>,
        names: &mut Names,
        body: &mut Fields<'a>,
    ) -> Result<Tools<'a>, Box<Refusal>> {
        let (mut tools, mut hosted, mut spaces) = (Vec::new(), Vec::new(), Vec::new());
        for raw in raws {
            let mut fields = raw.fields()?;
            let kind = fields.need("type", "the type of a tool")?.text()?;
            match &*kind {
                "function" | "custom" => {
                    tools.push(Self::read(raw.path, fields, None, &kind, names)?);
                }
                "namespace" => {
                    let space = fields.filled("name", "the name of the namespace")?;
                    spaces.push((space, fields));
                }
                other => hosted.push(format!("{}.{other}", raw.path)),
            }
        }
        // Names without a space stay as they are, so these come after all of them.
        for (space, mut fields) in spaces {
            for raw in fields.items("tools")? {
                let mut fields = raw.fields()?;
                let kind = fields.need("type", "the type of a tool")?.text()?;
                match &*kind {
                    "function" | "custom" => {
                        tools.push(Self::read(raw.path, fields, Some(&space), &kind, names)?);
                    }
                    other => hosted.push(format!("{}.{other}", raw.path)),
                }
            }
            body.absorb(fields);
        }
        Ok((tools, hosted))
    }

    fn read(
        path: String,
        mut fields: Fields<'a>,
        space: Option<&str>,
        kind: &str,
        names: &mut Names,
    ) -> Result<Self, Box<Refusal>> {
        let custom = kind == "custom";
        let name = fields.filled("name", "the name of the tool")?;
        let flat = names.add(space, &name, custom);
        let description = fields.take("description");
        Ok(Self {
            name: if flat == name { name } else { Cow::Owned(flat) },
            description,
            parameters: match custom {
                true => None,
                false => fields.object("parameters")?,
            },
            strict: match custom {
                true => None,
                false => fields.boolean("strict")?,
            },
            format: match custom {
                true => fields.take("format"),
                false => None,
            },
            custom,
            path,
            rest: fields,
        })
    }
}

impl<'a> Choice<'a> {
    pub(super) fn read(
        raw: &Raw<'a>,
        names: &Names,
        body: &mut Fields<'a>,
    ) -> Result<Self, Box<Refusal>> {
        let expected = "`none`, `auto`, `required`, or an object that names a tool";
        if let Some(word) = raw.as_text() {
            return match &*word {
                "none" => Ok(Self::None),
                "auto" => Ok(Self::Auto),
                "required" => Ok(Self::Required),
                _ => Err(Refusal::invalid(&*raw.path, expected)),
            };
        }
        let mut fields = raw.fields().map_err(|_| raw.wrong(expected))?;
        let kind = fields.need("type", "the type of the choice")?.text()?;
        match &*kind {
            "function" | "custom" => {
                let name = chosen(&mut fields, names)?;
                body.absorb(fields);
                let custom = kind == "custom";
                Ok(Self::Tool { name, custom })
            }
            "allowed_tools" => {
                let mut allowed = Vec::new();
                for raw in fields.items("tools")? {
                    let mut fields = raw.fields()?;
                    let kind = fields.text("type")?;
                    // Tools that the provider runs are left out here as they are among the tools.
                    if let Some("function" | "custom") | None = kind.as_deref() {
                        allowed.push(chosen(&mut fields, names)?);
                    }
                    body.absorb(fields);
                }
                let mode = fields.need("mode", "`auto` or `required`")?;
                body.absorb(fields);
                match &*mode.text()? {
                    // Only tools that the provider runs may be called, and here there are none.
                    "auto" if allowed.is_empty() => Ok(Self::None),
                    "auto" => Ok(Self::Allowed {
                        required: false,
                        names: allowed,
                    }),
                    "required" if allowed.is_empty() => Err(hosted(&raw.path)),
                    "required" => Ok(Self::Allowed {
                        required: true,
                        names: allowed,
                    }),
                    _ => Err(Refusal::invalid(mode.path, "`auto` or `required`")),
                }
            }
            _ => Err(hosted(&raw.path)),
        }
    }
}

fn hosted(path: &str) -> Box<Refusal> {
    Refusal::unsupported(path, "the tool must be called, and only OpenAI runs it")
}

/// The name of a tool that is chosen, as an upstream knows it.
fn chosen<'a>(fields: &mut Fields<'a>, names: &Names) -> Result<Cow<'a, str>, Box<Refusal>> {
    let name = fields.filled("name", "the name of a tool")?;
    let namespace = fields.text("namespace")?;
    match names.of(namespace.as_deref(), &name) {
        Some(named) if named.flat != name => Ok(Cow::Owned(named.flat.clone())),
        Some(_) => Ok(name),
        None => Err(Refusal::invalid(
            fields.path("name"),
            "the name of a tool that is declared",
        )),
    }
}
