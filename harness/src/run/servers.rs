//! The scripted servers of a case. (Private shim until the mock servers are merged.)

use super::recorder::Recorder;
use crate::driver::Target;
use crate::run::case::Case;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(super) struct Servers;

impl Servers {
    pub(super) fn start(_: &Case, _: u64, _: &Path, _: &Path, _: &Arc<Recorder>) -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn targets(&self) -> BTreeMap<String, Target> {
        BTreeMap::new()
    }

    pub(super) async fn shutdown(self) -> Vec<u32> {
        Vec::new()
    }
}
