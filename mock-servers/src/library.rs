//! The library of models: tools that scenarios name instead of spelling them out, and the byte pattern of blobs.

/// Names of the library's tools.
///
/// - `echo`: returns its argument `text` as one text block;
/// - `add`: returns the sum of `a` and `b` as text, with `structuredContent` `{"sum": n}` and an output schema from 2025-06-18 on;
/// - `fail`: returns `isError: true` with a text block;
/// - `image`, `audio`: one image or audio block (audio from 2025-03-26 on; text before);
/// - `embedded-text`, `embedded-blob`: one embedded resource;
/// - `blob-1mib`: one embedded resource with a blob of 1 MiB (1,048,576 bytes of [`bytes`]);
/// - `link`: one resource link (from 2025-06-18 on; text before);
/// - `empty`: `content: []`;
/// - `slow`: like `echo`; scripts hold or delay it;
/// - `add_numbers`: the tool of the official framework's `tools_call` scenario.
pub const TOOLS: [&str; 12] = [
    "echo",
    "add",
    "fail",
    "image",
    "audio",
    "embedded-text",
    "embedded-blob",
    "blob-1mib",
    "link",
    "empty",
    "slow",
    "add_numbers",
];

/// The byte pattern of blobs: `length` bytes that contain every byte value, without a short period, the same on each
/// call. Byte `i` is the low byte of `i ^ (i >> 8) ^ (i >> 16)`.
pub fn bytes(length: u64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
    (0..length).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}
