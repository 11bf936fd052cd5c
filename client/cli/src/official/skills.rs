//! The skills extension (SEP-2640), as far as the framework's scenarios go: a skill is loaded only if what the server
//! sends is what its entry in the list promised.

use super::Done;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sparring_client::{Connection, Declared};

/// The name of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Declares the extension.
pub(super) fn declare(declared: &mut Declared) {
    declared.experimental.get_or_insert_default().insert(EXTENSION.to_owned(), json!({}));
}

/// The entries of `skills/list`.
pub(super) async fn list(
    connection: &Connection,
) -> Result<Vec<Value>, Box<dyn std::error::Error + Send + Sync>> {
    let mut all = Vec::new();
    let mut cursor = None::<String>;
    loop {
        let params = cursor.as_ref().map(|cursor| json!({ "cursor": cursor }));
        let page = connection.request("skills/list", params, Default::default()).await?;
        all.extend(page["skills"].as_array().cloned().unwrap_or_default());
        match page["nextCursor"].as_str().map(str::to_owned) {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(all),
        }
    }
}

/// Loads the first skill: its own file, and if that is good its other files.
pub(super) async fn load(connection: &Connection) -> Done {
    let skills = list(connection).await?;
    let skill = skills.first().ok_or("the server has no skills")?;
    let main = skill["uri"].as_str().ok_or("the skill has no uri")?;
    let file = read(connection, main).await?;
    verify(&file, entry_of(skill, main))?;
    if front_matter(&file)? != skill["frontmatter"] {
        return Err(format!("{main} has another front matter than its entry").into());
    }
    for entry in skill["resources"].as_array().into_iter().flatten() {
        let Some(uri) = entry["uri"].as_str().filter(|uri| *uri != main) else { continue };
        let file = read(connection, uri).await?;
        verify(&file, Some(entry))?;
    }
    Ok(())
}

fn entry_of<'a>(skill: &'a Value, uri: &str) -> Option<&'a Value> {
    skill["resources"].as_array()?.iter().find(|entry| entry["uri"] == uri)
}

/// The bytes of a file.
async fn read(
    connection: &Connection,
    uri: &str,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let params = Some(json!({ "uri": uri }));
    let result = connection.request("resources/read", params, Default::default()).await?;
    let content = &result["contents"][0];
    match (content["text"].as_str(), content["blob"].as_str()) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(blob)) => Ok(BASE64_STANDARD.decode(blob)?),
        (None, None) => Err(format!("{uri} has no content").into()),
    }
}

/// Compares a file with what its entry says of it.
fn verify(file: &[u8], entry: Option<&Value>) -> Result<(), String> {
    let entry = entry.ok_or("the skill does not list its own file")?;
    if let Some(size) = entry["size"].as_u64()
        && size != file.len() as u64
    {
        return Err(format!("{} has {} bytes, not {size}", entry["uri"], file.len()));
    }
    let digest = format!("sha256:{}", hex(&Sha256::digest(file)));
    match entry["digest"].as_str() {
        Some(stated) if stated != digest => Err(format!("{} has another digest", entry["uri"])),
        _ => Ok(()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The YAML between the first two lines `---`.
fn front_matter(file: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(file).replace("\r\n", "\n");
    let Some((yaml, _)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")) else {
        return Ok(Value::Object(Map::new()));
    };
    serde_saphyr::from_str(yaml).map_err(|error| format!("the front matter is no YAML: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_to_be_what_its_entry_says() {
        // The digest of "hello", by another program.
        let digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let entry = json!({"uri": "skill://x", "digest": digest, "size": 5});
        assert_eq!(verify(b"hello", Some(&entry)), Ok(()));
        assert!(verify(b"hellO", Some(&entry)).unwrap_err().contains("digest"));
        assert!(verify(b"hello!", Some(&entry)).unwrap_err().contains("6 bytes"));
        assert!(verify(b"hello", None).is_err());
    }

    #[test]
    fn front_matter_is_found() {
        let found = front_matter(b"---\r\nname: a\r\ndescription: b, c\r\n---\r\n# A\r\n").unwrap();
        assert_eq!(found, json!({"name": "a", "description": "b, c"}));
        assert_eq!(front_matter(b"# A\n").unwrap(), json!({}));
        assert!(front_matter(b"---\n[\n---\n").is_err());
    }
}
