//! A YAML file as a tree with places: the second, light pass that tells where a value stands.
//!
//! What the files may not use is refused here: anchors, aliases, tags, merge keys, several documents and keys that occur
//! twice.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Place};
use crate::scalar::Scalar;
use serde_saphyr::granit_parser::{Event, Parser, Span};
use sparring_wire::json_at::{self, Part};

/// Deeper nesting than any input file has.
const MAX_DEPTH: usize = 64;

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    place: Place,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<(String, Place, Node)>),
}

pub(crate) use sparring_wire::json_at::Step;

/// The way to a value from the top of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    pub(crate) fn key(&self, key: impl Into<String>) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.into()));
        Self(steps)
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }

    /// The last two keys, as a message names a place: `expect.header`.
    pub(crate) fn tail(&self) -> String {
        let keys: Vec<&str> = self
            .0
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
            .collect();
        keys[keys.len().saturating_sub(2)..].join(".")
    }
}

impl Node {
    /// Where the value at `path` stands; if there is none, where the deepest part of the path that exists does. An
    /// index into something that is not a sequence is passed over: one value may stand for a list of one.
    pub(crate) fn value(&self, path: &Path) -> Place {
        self.find(&path.0).1
    }

    /// Where the key at the end of `path` stands, with the same rules.
    pub(crate) fn key(&self, path: &Path) -> Place {
        let (key, value) = self.find(&path.0);
        key.unwrap_or(value)
    }

    /// Where something in JSON text stands: `at` leads to the text in the file, `inside` on from there. JSON that was
    /// written as a map is followed as a map. If the way of writing can't be followed, the text as a whole.
    pub(crate) fn json(&self, file: &str, at: &Path, inside: &[Step], part: Part) -> Place {
        let Some(Kind::Scalar(scalar)) = self.get(at).map(|node| &node.kind) else {
            let path = Path(at.0.iter().chain(inside).cloned().collect());
            return if part == Part::Key { self.key(&path) } else { self.value(&path) };
        };
        json_at::locate(&scalar.text, inside, part)
            .and_then(|characters| scalar.place(file, characters))
            .unwrap_or_else(|| self.value(at))
    }

    /// Where this text stands in the first scalar below `path` that has it.
    pub(crate) fn find_text(&self, file: &str, path: &Path, text: &str) -> Option<Place> {
        fn search(node: &Node, file: &str, text: &str) -> Option<Place> {
            match &node.kind {
                Kind::Scalar(scalar) => {
                    let at = scalar.text.find(text)?;
                    let start = scalar.text[..at].chars().count();
                    Some(scalar.place(file, start..start + text.chars().count()).unwrap_or(node.place))
                }
                Kind::Sequence(items) => items.iter().find_map(|item| search(item, file, text)),
                Kind::Mapping(entries) => entries.iter().find_map(|(.., value)| search(value, file, text)),
            }
        }
        search(self.get(path)?, file, text)
    }

    /// The scalar at `path`.
    pub(crate) fn scalar(&self, path: &Path) -> Option<&Scalar> {
        match &self.get(path)?.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Whether it is a map with this key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        matches!(&self.kind, Kind::Mapping(entries) if entries.iter().any(|(name, ..)| name == key))
    }

    pub(crate) fn is_empty_mapping(&self, path: &Path) -> bool {
        self.get(path).is_some_and(|node| matches!(&node.kind, Kind::Mapping(entries) if entries.is_empty()))
    }

    /// The node at `path`. An index into something that is no sequence is passed over.
    fn get(&self, path: &Path) -> Option<&Self> {
        path.0.iter().try_fold(self, |node, step| match (step, &node.kind) {
            (Step::Index(n), Kind::Sequence(items)) => items.get(*n),
            (Step::Index(_), _) => Some(node),
            (Step::Key(key), Kind::Mapping(entries)) => {
                entries.iter().find(|(name, ..)| name == key).map(|(.., value)| value)
            }
            (Step::Key(_), _) => None,
        })
    }

    fn find(&self, path: &[Step]) -> (Option<Place>, Place) {
        let mut node = self;
        let mut key_place = None;
        for step in path {
            match (step, &node.kind) {
                (Step::Index(n), Kind::Sequence(items)) => {
                    let Some(item) = items.get(*n) else { break };
                    node = item;
                    key_place = None;
                }
                (Step::Index(_), _) => {}
                (Step::Key(key), Kind::Mapping(entries)) => {
                    let Some((_, place, value)) = entries.iter().find(|(name, ..)| name == key) else {
                        break;
                    };
                    key_place = Some(*place);
                    node = value;
                }
                (Step::Key(_), _) => break,
            }
        }
        (key_place, node.place)
    }

    /// The path of the key or value that starts at this line and column.
    pub(crate) fn path_at(&self, line: u32, column: u32) -> Option<Path> {
        self.search(line, column, &Path::default())
    }

    fn search(&self, line: u32, column: u32, here: &Path) -> Option<Path> {
        let is = |place: &Place| place.line == line && place.column == column;
        match &self.kind {
            Kind::Scalar(_) => is(&self.place).then(|| here.clone()),
            Kind::Sequence(items) => items
                .iter()
                .enumerate()
                .find_map(|(n, item)| item.search(line, column, &here.index(n)))
                .or_else(|| is(&self.place).then(|| here.clone())),
            Kind::Mapping(entries) => entries
                .iter()
                .find_map(|(key, place, value)| {
                    let path = here.key(key.as_str());
                    if is(place) { Some(path) } else { value.search(line, column, &path) }
                })
                .or_else(|| is(&self.place).then(|| here.clone())),
        }
    }
}

/// Reads a file into a tree.
pub(crate) fn read(file: &str, text: &str) -> Result<Node, Diagnostic> {
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|e| {
            let marker = e.marker();
            let place = Place::new(marker.line(), marker.col() + 1, 1);
            Diagnostic::at(file, text, place, Code::Yaml, e.info().to_string())
        })?;
        let place = place_of(text, &span);
        let refuse = |code, message: &str| Err(Diagnostic::at(file, text, place, code, message));
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => (0, false),
        };
        if anchor != 0 {
            return refuse(Code::Anchor, "anchors and aliases are not used in these files");
        }
        if tag {
            return refuse(Code::Tag, "tags are not used in these files");
        }
        let done = match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return refuse(Code::Anchor, "anchors and aliases are not used in these files");
            }
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return refuse(Code::Yaml, "a file has only one document");
                }
                None
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if stack.len() >= MAX_DEPTH => {
                return refuse(Code::Yaml, "this is nested too deeply");
            }
            Event::SequenceStart(..) => {
                stack.push(Open::Sequence(place, Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                stack.push(Open::Mapping(place, None, Vec::new()));
                None
            }
            Event::Scalar(value, style, ..) => {
                if let Some(Open::Mapping(_, key @ None, entries)) = stack.last_mut() {
                    if value == "<<" {
                        return refuse(Code::MergeKey, "merge keys are not used in these files");
                    }
                    if entries.iter().any(|(name, ..)| *name == value) {
                        return refuse(Code::DuplicateKey, &format!("the key `{value}` occurs twice"));
                    }
                    *key = Some((value.into_owned(), place));
                    None
                } else {
                    let source = span.byte_range().unwrap_or_default();
                    let scalar = Scalar::new(value.into_owned(), style, source);
                    Some(Node { place, kind: Kind::Scalar(scalar) })
                }
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::Sequence(place, items)) => {
                    Some(Node { place: until(place, &span), kind: Kind::Sequence(items) })
                }
                Some(Open::Mapping(place, _, entries)) => {
                    let place = match entries.first() {
                        // A map in block style begins with its first key.
                        Some((_, key, _)) if (key.line, key.column) == (place.line, place.column) => *key,
                        _ => until(place, &span),
                    };
                    Some(Node { place, kind: Kind::Mapping(entries) })
                }
                None => None,
            },
            _ => None,
        };
        if let Some(node) = done {
            match stack.last_mut() {
                None => root = Some(node),
                Some(Open::Sequence(_, items)) => items.push(node),
                Some(Open::Mapping(_, key, entries)) => match key.take() {
                    Some((name, place)) => entries.push((name, place, node)),
                    None => return refuse(Code::Yaml, "a key is a plain word"),
                },
            }
        }
    }
    root.ok_or_else(|| Diagnostic::whole_file(file, Code::Yaml, "the file is empty"))
}

enum Open {
    Sequence(Place, Vec<Node>),
    Mapping(Place, Option<(String, Place)>, Vec<(String, Place, Node)>),
}

/// From the start of a list or map in flow style to its end, if that is on the same line.
fn until(start: Place, end: &Span) -> Place {
    let (line, column) = (end.end.line(), end.end.col() + 1);
    let on_one_line = line == start.line as usize && column > start.column as usize;
    if on_one_line { Place::new(line, start.column as usize, column - start.column as usize) } else { start }
}

fn place_of(text: &str, span: &Span) -> Place {
    // Only what stands on one line is underlined as a whole.
    let slice = span.slice(text).unwrap_or_default();
    let width = slice.lines().next().unwrap_or_default().trim_end().chars().count().max(1);
    Place::new(span.start.line(), span.start.col() + 1, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (&'static str, u32, u32) {
        let e = read("f.yaml", text).unwrap_err();
        (e.code.word(), e.line, e.column)
    }

    #[test]
    fn places_of_keys_and_values_are_found_in_block_and_flow_style() {
        let text = "a:\n  - { b: one, c: [x, y] }\n  - b: two\nd: |\n  text\n";
        let tree = read("f.yaml", text).unwrap();
        let b = Path::default().key("a").index(0).key("b");
        assert_eq!(tree.key(&b), Place { line: 2, column: 7, width: 1 });
        assert_eq!(tree.value(&b), Place { line: 2, column: 10, width: 3 });
        let y = Path::default().key("a").index(0).key("c").index(1);
        assert_eq!(tree.value(&y), Place { line: 2, column: 22, width: 1 });
        // A path that is not there leads to what is there of it.
        let gone = Path::default().key("a").index(1).key("gone");
        assert_eq!(tree.value(&gone).line, 3);
        assert_eq!(tree.path_at(2, 22), Some(y));
        assert_eq!(tree.path_at(2, 7), Some(b));
    }

    #[test]
    fn what_is_not_used_is_refused_with_its_place() {
        assert_eq!(refused("a: &x 1\nb: *x\n"), ("anchor", 1, 7));
        assert_eq!(refused("a: !thing 1\n").0, "tag");
        assert_eq!(refused("a: 1\n<<: { b: 2 }\n"), ("merge-key", 2, 1));
        assert_eq!(refused("a: 1\nb: 2\na: 3\n"), ("duplicate-key", 3, 1));
        assert_eq!(refused("a: { b: 1, b: 2 }\n"), ("duplicate-key", 1, 12));
        assert_eq!(refused("a: 1\n---\nb: 2\n").0, "yaml");
        assert_eq!(refused("").0, "yaml");
        assert_eq!(refused("a: [1\nb: 2\n").0, "yaml");
        assert_eq!(refused(&"[".repeat(200)).0, "yaml");
    }
}
