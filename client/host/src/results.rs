//! Results of tools as the model gets them.

mod limit;

pub use limit::{TextLimit, cut};

use crate::error::HostError;
use crate::model::{ModelResult, Part};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sparring_profiles::{
    Audio, EmbeddedBlob, EmbeddedText, Image, IsError, ResourceLink, ResultsSettings, Structured,
};
use std::collections::BTreeMap;

/// Maps results. The default is [`ProfileResults`].
pub trait ResultMapper: Send + Sync {
    /// The URIs of linked resources that the host reads before it maps the result.
    fn wants(&self, result: &Value) -> Vec<String>;

    /// What the model gets of a result of `tools/call`. `read` has what [`ResultMapper::wants`] asked for: results of `resources/read` by URI;
    /// what could not be read is missing.
    ///
    /// # Errors
    /// [`HostError::ToolFailed`], if a tool error is a failure in this host.
    fn map(&self, result: Value, read: &BTreeMap<String, Value>) -> Result<ModelResult, HostError>;

    /// Cuts text that is too long. [`ResultMapper::map`] has done so already.
    fn limit(&self, result: &mut ModelResult);

    /// Cuts what a read of a resource gave, if the host does so.
    fn limit_read(&self, result: &mut ModelResult);
}

/// The mapping that `[results]` describes.
#[derive(Debug, Clone)]
pub struct ProfileResults {
    settings: ResultsSettings,
}

impl ProfileResults {
    /// As these settings want it.
    pub const fn new(settings: ResultsSettings) -> Self {
        Self { settings }
    }

    fn part(&self, block: Value, read: &BTreeMap<String, Value>, out: &mut Vec<Part>) {
        let Value::Object(mut block) = block else { return out.push(Part::Block(block)) };
        match block.get("type").and_then(Value::as_str) {
            Some("text") => match block.remove("text") {
                Some(Value::String(text)) => out.push(Part::Text { text }),
                _ => out.push(describe("a text block without text")),
            },
            Some("image") => out.extend(binary(self.settings.image, Media::Image, "image", block)),
            Some("audio") => {
                let way = match self.settings.audio {
                    Audio::Audio => Image::Image,
                    Audio::Describe => Image::Describe,
                    Audio::Drop => Image::Drop,
                };
                out.extend(binary(way, Media::Audio, "audio", block));
            }
            Some("resource_link") => self.link(block, read, out),
            Some("resource") => match block.remove("resource") {
                Some(Value::Object(resource)) => out.extend(self.embedded(resource)),
                _ => out.push(describe("a resource without content")),
            },
            _ => out.push(Part::Block(Value::Object(block))),
        }
    }

    fn embedded(&self, mut resource: Map<String, Value>) -> Option<Part> {
        let uri = word(&resource, "uri").unwrap_or("no URI").to_owned();
        let mime = word(&resource, "mimeType").map(str::to_owned);
        if let Some(Value::String(text)) = resource.get_mut("text") {
            return match self.settings.embedded_text {
                EmbeddedText::Inline => Some(Part::Text { text: std::mem::take(text) }),
                EmbeddedText::Describe => {
                    let mime = mime.as_deref().unwrap_or("text/plain");
                    Some(describe(&format!("resource {uri}, {mime}: {} bytes", text.len())))
                }
                EmbeddedText::Stub => Some(stub("resource", Some(&uri), mime.as_deref(), Some(text.len()))),
                EmbeddedText::Drop => None,
            };
        }
        let Some(blob) = word(&resource, "blob") else {
            return Some(describe(&format!("resource {uri} without content")));
        };
        if mime.as_deref().is_some_and(|mime| starts_with_ignoring_case(mime, "image/")) {
            let mut image = Map::new();
            image.insert("data".into(), resource.remove("blob").unwrap_or_default());
            image.insert("mimeType".into(), mime.into());
            return binary(self.settings.embedded_image, Media::Image, &format!("resource {uri}"), image);
        }
        let bytes = decoded_len(blob);
        match self.settings.embedded_blob {
            EmbeddedBlob::Keep => Some(Part::Block(json!({"type": "resource", "resource": resource}))),
            EmbeddedBlob::Describe => {
                Some(describe(&format!("resource {uri}, {}: {}", mime_or(mime.as_deref()), size(bytes))))
            }
            EmbeddedBlob::Stub => Some(stub("resource", Some(&uri), mime.as_deref(), bytes)),
            EmbeddedBlob::Drop => None,
        }
    }

    fn link(&self, link: Map<String, Value>, read: &BTreeMap<String, Value>, out: &mut Vec<Part>) {
        let described = || {
            let uri = word(&link, "uri").unwrap_or("no URI");
            let mut text = format!("link to resource {uri}");
            for member in ["title", "name", "mimeType", "description"] {
                if let Some(value) = word(&link, member) {
                    text.push_str(", ");
                    text.push_str(value);
                }
            }
            describe(&text)
        };
        match self.settings.resource_link {
            ResourceLink::Drop => {}
            ResourceLink::Describe => out.push(described()),
            ResourceLink::Fetch => {
                let contents = word(&link, "uri").and_then(|uri| read.get(uri)?.get("contents")?.as_array());
                match contents {
                    Some(contents) => {
                        let contents = contents.iter().filter_map(Value::as_object).cloned();
                        out.extend(contents.filter_map(|content| self.embedded(content)));
                    }
                    None => out.push(described()),
                }
            }
            ResourceLink::Keep => out.push(Part::Block(Value::Object(link))),
        }
    }
}

impl ResultMapper for ProfileResults {
    fn wants(&self, result: &Value) -> Vec<String> {
        if self.settings.resource_link != ResourceLink::Fetch {
            return Vec::new();
        }
        let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let links = blocks.filter(|b| b.get("type").and_then(Value::as_str) == Some("resource_link"));
        links.filter_map(|b| b.get("uri").and_then(Value::as_str).map(str::to_owned)).collect()
    }

    fn map(&self, result: Value, read: &BTreeMap<String, Value>) -> Result<ModelResult, HostError> {
        let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
        let Value::Object(mut members) = result else { return Ok(ModelResult::default()) };
        let blocks = match members.remove("content") {
            Some(Value::Array(blocks)) => blocks,
            _ => Vec::new(),
        };
        let structured = members.remove("structuredContent");
        let (blocks, structured) = match (self.settings.structured, structured) {
            (Structured::Ignore, _) => (blocks, None),
            (Structured::IfNoContent, structured) => {
                let empty = blocks.is_empty();
                (blocks, structured.filter(|_| empty))
            }
            (Structured::Prefer, Some(structured)) => (Vec::new(), Some(structured)),
            (Structured::Prefer | Structured::Both, structured) => (blocks, structured),
        };
        let mut content = Vec::with_capacity(blocks.len());
        for block in blocks {
            self.part(block, read, &mut content);
        }
        let mut mapped = ModelResult { content, structured, is_error };
        self.limit(&mut mapped);
        match self.settings.is_error {
            IsError::ToolError => {}
            IsError::Text => mapped.is_error = false,
            IsError::Exception if is_error => return Err(HostError::ToolFailed(mapped.text())),
            IsError::Exception => {}
        }
        Ok(mapped)
    }

    fn limit(&self, result: &mut ModelResult) {
        if let Some(limit) = TextLimit::new(&self.settings) {
            limit.apply(&mut result.content);
        }
    }

    fn limit_read(&self, result: &mut ModelResult) {
        if self.settings.limit_reads {
            self.limit(result);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Media {
    Image,
    Audio,
}

/// An image or audio block. What is no base64 is described in any case: no model can make use of it.
fn binary(way: Image, media: Media, what: &str, mut block: Map<String, Value>) -> Option<Part> {
    let mime = word(&block, "mimeType").map(str::to_owned);
    let bytes = word(&block, "data").and_then(decoded_len);
    let described = |bytes| Some(describe(&format!("{what}, {}: {}", mime_or(mime.as_deref()), size(bytes))));
    match way {
        Image::Drop => None,
        Image::Describe => described(bytes),
        Image::Stub => Some(stub(what, None, mime.as_deref(), bytes)),
        Image::Image => match (block.remove("data"), bytes) {
            (Some(Value::String(data)), Some(_)) => {
                let mime = mime.unwrap_or_else(|| "application/octet-stream".to_owned());
                Some(if media == Media::Image {
                    Part::Image { data, mime }
                } else {
                    Part::Audio { data, mime }
                })
            }
            _ => described(None),
        },
    }
}

/// How many bytes base64 stands for, without decoding all of it at a time; `None` if it is no base64.
pub fn decoded_len(base64: &str) -> Option<usize> {
    const CHUNK: usize = 4 * 1024;
    let mut bytes = 0;
    let mut chunks = base64.as_bytes().chunks(CHUNK).peekable();
    while let Some(chunk) = chunks.next() {
        let decoded = STANDARD.decode(chunk).ok()?;
        // Padding ends it.
        if chunks.peek().is_some() && chunk.ends_with(b"=") {
            return None;
        }
        bytes += decoded.len();
    }
    Some(bytes)
}

fn word<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

fn mime_or(mime: Option<&str>) -> &str {
    mime.unwrap_or("application/octet-stream")
}

fn size(bytes: Option<usize>) -> String {
    bytes.map_or_else(|| "not valid base64".to_owned(), |bytes| format!("{bytes} bytes"))
}

fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn describe(what: &str) -> Part {
    Part::Text { text: format!("[{what}]") }
}

fn stub(kind: &str, uri: Option<&str>, mime: Option<&str>, bytes: Option<usize>) -> Part {
    let mut stub = Map::new();
    stub.insert("type".into(), kind.into());
    for (name, value) in [
        ("uri", uri.map(Value::from)),
        ("mimeType", mime.map(Value::from)),
        ("bytes", bytes.map(Value::from)),
    ] {
        stub.extend(value.map(|value| (name.to_owned(), value)));
    }
    Part::Text { text: Value::Object(stub).to_string() }
}

#[cfg(test)]
mod tests;
